import { z } from 'zod';
import type { Batch } from '../../shared/batches/batch.ts';
import { ApiError, validationError } from '../../shared/errors.ts';
import { guestPlan, type PlanFile } from '../../shared/plan-file.ts';
import { type Account, monthOf } from '../../shared/store/account.ts';
import { changeSettings } from '../../shared/store/account-changes.ts';
import type { ListedAccount, Store } from '../../shared/store/store.ts';
import { presentBatch } from '../batches/present-batch.ts';
import { parseBody } from '../json-body.ts';
import { limitParameter, parseQuery } from '../list-query.ts';
import type { AccountSummary } from '../openapi/answers.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';
import type { ChangeAccount } from '../revocation/change-account.ts';
import { keysOf } from './developer-keys.ts';

const topUp = z.strictObject({
  id: z.string().regex(/^[\x21-\x7e]{1,128}$/, 'expected 1 to 128 visible ASCII characters'),
  tokens: z.int().positive().max(1e12),
});

export const settingsBody = z
  .strictObject({
    plan: z.string().optional().meta({ description: 'A plan of the plan file; a device stays on `guest-device`.' }),
    overageEnabled: z.boolean().optional().meta({ description: 'Whether it goes on past its monthly allowance.' }),
    topUp: topUp.optional().meta({ description: 'Tokens more for this month, once for each `id`.' }),
    suspended: z.boolean().optional().meta({ description: 'Whether all its requests are 403.' }),
  })
  .refine((settings) => Object.values(settings).some((value) => value !== undefined), {
    path: ['body'],
    message: 'expected plan, overageEnabled, topUp or suspended',
  })
  .meta({ minProperties: 1 });

export const accountsQuery = z.strictObject({
  prefix: z
    .string()
    .max(300)
    .optional()
    .meta({ description: 'What the ids begin with: `user:al`, `device:ab12`.', examples: ['user:al'] }),
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .max(300)
    .optional()
    .meta({ description: 'The account before the first: the last of the page before.' }),
});

/** An account that a sign-in token could name (OpenID Connect Core 1.0, section 2). */
const userId = /^user:.{1,255}$/su;

/** `GET /admin/accounts`: accounts and devices in order of their ids, by their bytes in UTF-8 (API E8). */
export function listAccounts({ store }: { store: Pick<Store, 'listAccounts'> }): Stage {
  return async function listAccounts(ctx) {
    const { limit, ...query } = parseQuery(accountsQuery, ctx.querystring);
    const found = await store.listAccounts({ ...query, limit: limit + 1 });
    ctx.body = { object: 'list', data: found.slice(0, limit).map(summarise), has_more: found.length > limit };
  };
}

function summarise({ id, plan, overageEnabled, suspended, createdAt }: ListedAccount): AccountSummary {
  return { account: id, plan, overageEnabled, suspended, createdAt: createdAt.toISOString() };
}

/** `GET /admin/accounts/{account}`: what an operator may know of an account or device, its last batches among it (API E8). */
export function retrieveAccount({ store }: { store: Pick<Store, 'findAccount' | 'batches'> }): Stage {
  return async function retrieveAccount(ctx) {
    const account = await store.findAccount(accountOf(ctx));
    const shown = present(account, timeOf(ctx));
    const batches = await store.batches.listBatches(accountOf(ctx), { limit: shownBatchesMax, order: 'desc' });
    ctx.body = { ...shown, batches: batches.map(presentForOperator) };
  };
}

const shownBatchesMax = 20;

/** How it goes, and nothing of what is in it. */
function presentForOperator(batch: Batch): object {
  const { id, status, request_counts, created_at, expires_at } = presentBatch(batch);
  return { id, status, request_counts, created_at, expires_at };
}

/**
 * `PATCH /admin/accounts/{account}`: changes its plan, has it go on past its allowance or not, adds to this month's allowance,
 * suspends it or lets it go on; in force on the account's next request, and noted in its audit trail. What is so already is
 * no change, nor is a top-up of an id that was made before, so that all of it can be asked for again. An account that was
 * never used comes into being here: who has signed in, and has no key yet, must not be out of reach.
 */
export function updateAccount(parts: { changeAccount: ChangeAccount; planFile: PlanFile }): Stage {
  return async function updateAccount(ctx) {
    const settings = parseBody(settingsBody, stateOf(ctx, 'body'));
    const account = accountOf(ctx);
    if (settings.plan !== undefined) requirePlanFor(account, settings.plan, parts.planFile);
    const by = stateOf(ctx, 'caller').account;
    const unknown = userId.test(account) ? { id: account, plan: parts.planFile.defaultPlan } : undefined;
    const at = timeOf(ctx);
    const decide = changeSettings({ settings, by, at, ...(unknown && { unknown }) });
    ctx.body = present(await parts.changeAccount(account, decide), at);
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

export function accountOf(ctx: AppContext): string {
  const { params } = ctx as { params?: { account?: string } }; // the router sets it for the route that names it
  return params?.account ?? '';
}

/** Redis's, by which months turn. */
function timeOf(ctx: AppContext): Date {
  return new Date(stateOf(ctx, 'now'));
}

/** `topUp` is what was added to the allowance of the month that `now` is in, in tokens. */
function present(account: Account | undefined, now: Date): object {
  if (account === undefined) throw new ApiError('NOT_FOUND', 'There is no such account.');
  const { id, plan, overageEnabled, suspended, createdAt, changes } = account;
  const topUp = account.topUp?.month === monthOf(now) ? account.topUp.tokens : 0;
  return { account: id, plan, overageEnabled, topUp, suspended, createdAt, keys: keysOf(account), changes };
}
