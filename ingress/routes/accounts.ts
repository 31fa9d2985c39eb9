import { z } from 'zod';
import { ApiError, validationError } from '../../shared/errors.ts';
import { guestPlan, type PlanFile } from '../../shared/plan-file.ts';
import type { Account } from '../../shared/store/account.ts';
import { changeSettings } from '../../shared/store/account-changes.ts';
import type { Store } from '../../shared/store/store.ts';
import { parseBody } from '../json-body.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';
import type { ChangeAccount } from '../revocation/change-account.ts';
import { keysOf } from './developer-keys.ts';

const settingsBody = z
  .strictObject({ plan: z.string().optional(), suspended: z.boolean().optional() })
  .refine((settings) => Object.values(settings).some((value) => value !== undefined), {
    path: ['body'],
    message: 'expected plan, suspended or both',
  });

/** An account that a sign-in token could name (OpenID Connect Core 1.0, section 2). */
const userId = /^user:.{1,255}$/su;

/** `GET /admin/accounts/{account}`: what an operator may know of an account or device (API E8). */
export function retrieveAccount({ store }: { store: Pick<Store, 'findAccount'> }): Stage {
  return async function retrieveAccount(ctx) {
    ctx.body = present(await store.findAccount(accountOf(ctx)));
  };
}

/**
 * `PATCH /admin/accounts/{account}`: changes its plan, suspends it or lets it go on; in force on the account's next
 * request, and noted in its audit trail. What is so already is no change, so that it can be asked for again. An account that
 * was never used comes into being here: who has signed in, and has no key yet, must not be out of reach.
 */
export function updateAccount(parts: { changeAccount: ChangeAccount; planFile: PlanFile }): Stage {
  return async function updateAccount(ctx) {
    const settings = parseBody(settingsBody, stateOf(ctx, 'body'));
    const account = accountOf(ctx);
    if (settings.plan !== undefined) requirePlanFor(account, settings.plan, parts.planFile);
    const by = stateOf(ctx, 'caller').account;
    const unknown = userId.test(account) ? { id: account, plan: parts.planFile.defaultPlan } : undefined;
    const decide = changeSettings({ settings, by, at: new Date(), ...(unknown && { unknown }) });
    ctx.body = present(await parts.changeAccount(account, decide));
  };
}

/** Devices are on the guest plan, all of them, and nobody else is (API C12). */
function requirePlanFor(account: string, plan: string, { plans }: PlanFile): void {
  const refuse = (message: string) => validationError([{ path: 'plan', message }]);
  if (plans[plan] === undefined) throw refuse('there is no such plan');
  const isDevice = account.startsWith('device:');
  if (isDevice && plan !== guestPlan) throw refuse(`a device is always on the plan ${guestPlan}`);
  if (!isDevice && plan === guestPlan) throw refuse(`the plan ${guestPlan} is for devices`);
}

function accountOf(ctx: AppContext): string {
  const { params } = ctx as { params?: { account?: string } }; // the router sets it for the route that names it
  return params?.account ?? '';
}

function present(account: Account | undefined): object {
  if (account === undefined) throw new ApiError('NOT_FOUND', 'There is no such account.');
  const { id, plan, suspended, createdAt, changes } = account;
  return { account: id, plan, suspended, createdAt, keys: keysOf(account), changes };
}
