import type { CheckCaller } from '../check-caller.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';

/** The caller is the present one, or the request ends here: no credential that has ended is answered (API C8). */
export function checkPresentCaller({ checkCaller }: { checkCaller: CheckCaller }): Stage {
  return async function checkPresentCaller(ctx, next) {
    await lookAtCaller(ctx, checkCaller);
    await next();
  };
}

export async function lookAtCaller(ctx: AppContext, { look }: CheckCaller): Promise<void> {
  const { requestId, caller } = ctx.state;
  ctx.state.checked = true;
  ctx.state.caller = await look({ requestId, credential: stateOf(ctx, 'credential'), caller });
}
