import type { CheckRequest } from '../../callers/check-caller.ts';
import { type AppContext, stateOf } from '../../request-state.ts';

/** Returns the data for the check of this request's caller, and marks the check as begun. */
export function beginCallerCheck(ctx: AppContext): CheckRequest {
  const { requestId, caller, claim } = ctx.state;
  ctx.state.callerCheck = 'begun';
  return { requestId, address: stateOf(ctx, 'address'), credential: stateOf(ctx, 'credential'), caller, claim };
}
