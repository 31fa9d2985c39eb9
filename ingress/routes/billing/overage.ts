import { z } from 'zod';
import { changeSettings } from '../../../shared/account-changes/change-settings.ts';
import type { RecordedChange } from '../../../shared/account-changes/recorded-change.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Account } from '../../../shared/store/accounts/account.ts';
import type { Decide } from '../../../shared/store/documents/documents.ts';
import { parseBody } from '../../api/json-body.ts';
import { type Stage, stateOf } from '../../request-state.ts';
import { presentCallersQuota, type QuotaDeps } from './quota.ts';

export const overageBody = z.strictObject({
  enabled: z.boolean().meta({ description: 'Whether requests continue beyond the monthly allowance.' }),
});

/**
 * `PATCH /billing/overage`: turns overage on or off for the caller's account, from its next request on
 * (contract.md#j5-overage-and-top-up-codes). Fails with `FORBIDDEN` if the plan leaves that to operators. Leaves an audit record, unless
 * nothing changes.
 */
export function updateOverage({ changeRecorded, ...deps }: QuotaDeps & { changeRecorded: RecordedChange }): Stage {
  return async function updateOverage(ctx) {
    const planFile = stateOf(ctx, 'planFile');
    const { enabled } = parseBody(overageBody, stateOf(ctx, 'body'));
    const { account: id, version } = stateOf(ctx, 'caller');
    const decide = changeSettings({
      settings: { overageEnabled: enabled },
      at: new Date(stateOf(ctx, 'counters').now),
      by: id,
      origin: { address: stateOf(ctx, 'address'), reason: null },
      unknown: { id, plan: planFile.defaultPlan },
    });
    const request = { requestId: stateOf(ctx, 'requestId'), checkedVersion: version };
    const changed = await changeRecorded(id, ifSelfService(decide, planFile), request);
    ctx.body = presentCallersQuota(ctx, deps, changed);
  };
}

/** The plan is that of the account when it changes. */
function ifSelfService(
  decide: Decide<Account, Account | undefined>,
  { plans, defaultPlan }: PlanFile,
): Decide<Account, Account | undefined> {
  return (known) => {
    const plan = known?.plan ?? defaultPlan;
    if (plans[plan]?.overage !== 'operator') return decide(known);
    throw new ApiError(
      'FORBIDDEN',
      `On the plan "${plan}", overage is turned on and off by the operator of this service.`,
    );
  };
}
