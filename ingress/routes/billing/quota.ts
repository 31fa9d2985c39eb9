import { accountStatusOf } from '../../../shared/caller.ts';
import { allowanceOf } from '../../../shared/limits/allowance.ts';
import { quotaOf } from '../../../shared/limits/quota.ts';
import type { Account } from '../../../shared/store/accounts/account.ts';
import { type AppContext, type Stage, stateOf } from '../../request-state.ts';

export type QuotaDeps = { topupUrl: string };

/** `GET /billing/quota`: the caller's quota and usage of this month, in tokens (contract.md#e5-quota-route). */
export function retrieveQuota(deps: QuotaDeps): Stage {
  return async function retrieveQuota(ctx) {
    ctx.body = presentQuota(ctx, deps);
  };
}

/** Presents the caller's quota. `changed`: its account after a change that this request has made. */
export function presentQuota(ctx: AppContext, { topupUrl }: QuotaDeps, changed?: Account): object {
  const caller = { ...stateOf(ctx, 'caller'), ...(changed && accountStatusOf(changed)) };
  const { period, ...tokens } = quotaOf(stateOf(ctx, 'counters'), allowanceOf(caller, stateOf(ctx, 'planFile')));
  const { plan, overageEnabled } = caller;
  return { plan, unit: 'tokens', period, ...tokens, overageEnabled, resetDate: period.end, topupUrl };
}
