import { allowanceOf } from '../../shared/limits/allowance.ts';
import { quotaOf } from '../../shared/limits/quota.ts';
import { type Stage, stateOf } from '../request-state.ts';

/** `GET /billing/quota`: the caller's quota and usage of this month, in tokens (contract.md#e5-quota-route). */
export function retrieveQuota({ topupUrl }: { topupUrl: string }): Stage {
  return async function retrieveQuota(ctx) {
    const caller = stateOf(ctx, 'caller');
    const { period, ...tokens } = quotaOf(stateOf(ctx, 'counters'), allowanceOf(caller, stateOf(ctx, 'planFile')));
    const { plan, overageEnabled } = caller;
    ctx.body = { plan, unit: 'tokens', period, ...tokens, overageEnabled, resetDate: period.end, topupUrl };
  };
}
