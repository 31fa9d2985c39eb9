import type { CheckRequest } from '../../callers/check-caller.ts';
import { type AppContext, stateOf } from '../../request-state.ts';

/** Returns what the caller of this request is checked by. From now on its check has begun. */
export function beginCallerCheck(ctx: AppContext): CheckRequest {
  const { requestId, caller } = ctx.state;
  ctx.state.callerCheck = 'begun';
  return { requestId, credential: stateOf(ctx, 'credential'), caller };
}
