import { z } from 'zod';
import { changeSettings } from '../../shared/account-changes/change-settings.ts';
import { validationError } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { guestPlan } from '../../shared/plan-file/plan-file-schema.ts';
import { named, type Route, route } from '../api/route.ts';
import { accountParameter, changedAccountSchema, exampleAccount, presentAccount } from './accounts.ts';
import { reason } from './operator-action.ts';

const newTopUp = z.strictObject({
  id: z.string().regex(/^[\x21-\x7e]{1,128}$/, 'expected 1 to 128 visible ASCII characters'),
  tokens: z.int().positive().max(1e12),
});

const reasonAlone = 'expected with plan, overageEnabled, topUp or suspended; a reason alone is not a change';

const settingsBody = named(
  'AccountSettings',
  z
    .strictObject({
      plan: z.string().optional().meta({ description: 'A plan of the plan file; a device stays on `guest-device`.' }),
      overageEnabled: z
        .boolean()
        .optional()
        .meta({ description: 'Whether requests continue beyond the monthly allowance.' }),
      topUp: newTopUp.optional().meta({ description: 'Additional tokens for this month, added once for each `id`.' }),
      suspended: z
        .boolean()
        .optional()
        .meta({ description: 'Whether all requests of the account are refused with 403.' }),
      reason: reason.meta({ description: 'The reason, for the audit trail; only together with a change.' }),
    })
    .refine((body) => Object.values(body).some((value) => value !== undefined), {
      path: ['body'],
      message: 'expected plan, overageEnabled, topUp or suspended',
    })
    .refine(({ reason, ...settings }) => reason === undefined || Object.keys(settings).length > 0, {
      path: ['reason'],
      message: reasonAlone,
    })
    .meta({ minProperties: 1 }),
);

/** An account that a sign-in token could name (OpenID Connect Core 1.0, section 2). */
const userId = /^user:.{1,255}$/su;

export const accountSettingsRoutes: readonly Route[] = [
  /**
   * Changes the plan or the overage setting, adds to this month's allowance, suspends the account or lifts
   * its suspension; effective on the account's next request (contract.md#e8-operators). A change leaves an audit record and a log line. A
   * setting that already has the value is not a change, nor is a top-up whose id was used before; neither leaves a record. So every request
   * can be repeated. An account that was never used is created, so that operators can change an account that has signed in and has no key
   * yet.
   */
  route({
    id: 'updateAccount',
    method: 'PATCH',
    path: '/admin/accounts/:account',
    access: 'operator',
    tag: 'Operators',
    summary: 'Change an account or device',
    description:
      'Applies from the next request. Adds an audit record. Setting a value to its current value changes nothing and adds no record. `CONFLICT`: a top-up with this `id` was made with another number of tokens.',
    body: { schema: settingsBody, example: { plan: 'pro', reason: 'Signed the contract.' } },
    answers: { description: 'The account after the change.', schema: changedAccountSchema, example: exampleAccount },
    refusals: ['NOT_FOUND', 'CONFLICT'],
    params: { account: accountParameter },
    async handle(
      { requestId, address, planFile, caller, at, params: { account }, body: { reason: why = null, ...settings } },
      { authentication: { changeRecorded } },
    ) {
      if (settings.plan !== undefined) requirePlanFor(account, settings.plan, planFile);
      const by = caller.account;
      const origin = { address, reason: why };
      const unknown = userId.test(account) ? { id: account, plan: planFile.defaultPlan } : undefined;
      const decide = changeSettings({ settings, by, at, origin, ...(unknown && { unknown }) });
      const changed = await changeRecorded(account, decide, { requestId });
      return presentAccount(changed, at);
    },
  }),
];

/** All devices have the guest plan, and no other account has it. */
function requirePlanFor(account: string, plan: string, { plans }: PlanFile): void {
  const refuse = (message: string) => validationError([{ path: 'plan', message }]);
  if (!Object.hasOwn(plans, plan)) throw refuse('there is no such plan');
  const isDevice = account.startsWith('device:');
  if (isDevice && plan !== guestPlan) throw refuse(`a device is always on the plan ${guestPlan}`);
  if (!isDevice && plan === guestPlan) throw refuse(`the plan ${guestPlan} is for devices`);
}
