import { accountStatusOf, type Caller } from '../../../shared/caller.ts';
import type { LimitCounters } from '../../../shared/limits/admission.ts';
import { allowanceOf, quotaOf } from '../../../shared/limits/quota.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Account } from '../../../shared/store/accounts/account.ts';
import { type AppContext, type Stage, stateOf } from '../../request-state.ts';

export type QuotaDeps = { topupUrl: string };

/** `GET /billing/quota`: the caller's quota and usage of this month, in tokens (contract.md#e5-quota-route). */
export function retrieveQuota(deps: QuotaDeps): Stage {
  return async function retrieveQuota(ctx) {
    ctx.body = presentCallersQuota(ctx, deps);
  };
}

/** Presents the caller's quota. `changed`: its account after a change that this request has made. */
export function presentCallersQuota(ctx: AppContext, deps: QuotaDeps, changed?: Account): object {
  const caller = { ...stateOf(ctx, 'caller'), ...(changed && accountStatusOf(changed)) };
  return presentQuota({ caller, counters: stateOf(ctx, 'counters'), planFile: stateOf(ctx, 'planFile') }, deps);
}

/** What an account may use and has used, in its current plan file. */
export type CallerCounters = { caller: Caller; counters: LimitCounters; planFile: PlanFile };

export function presentQuota({ caller, counters, planFile }: CallerCounters, { topupUrl }: QuotaDeps): object {
  const quota = quotaOf(counters, allowanceOf(caller, planFile));
  const { period, limit, chargedTokens: used, reservedTokens: reserved, overageTokens: overageUsed, ...rest } = quota;
  const { plan, overageEnabled } = caller;
  const tokens = { limit, used, reserved, overageUsed, ...rest };
  return { plan, unit: 'tokens', period, ...tokens, overageEnabled, resetDate: period.end, topupUrl };
}
