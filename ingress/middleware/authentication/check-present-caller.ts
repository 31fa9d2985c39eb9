import type { Caller } from '../../../shared/caller.ts';
import { type CheckCaller, requireActive } from '../../callers/check-caller.ts';
import { type AppContext, type Stage, stateOf } from '../../request-state.ts';

/** The caller is the present one, or the request ends here: no credential that has ended is answered. */
export function checkPresentCaller({ checkCaller }: { checkCaller: CheckCaller }): Stage {
  return async function checkPresentCaller(ctx, next) {
    const { caller, now } = await checkCaller.look(requestOf(ctx));
    ctx.state.caller = caller;
    ctx.state.now = now;
    await next();
  };
}

/** The same, for a route that needs to know where its caller's account stands. */
export function readLimitCounters({ checkCaller }: { checkCaller: CheckCaller }): Stage {
  return async function readLimitCounters(ctx, next) {
    requireActive(await lookAtCounters(ctx, checkCaller));
    await next();
  };
}

export async function lookAtCounters(ctx: AppContext, checkCaller: CheckCaller): Promise<Caller> {
  const { caller, counters } = await checkCaller.readCounters(requestOf(ctx));
  ctx.state.caller = caller;
  ctx.state.counters = counters;
  return caller;
}

function requestOf(ctx: AppContext) {
  const { requestId, caller } = ctx.state;
  ctx.state.checked = true;
  return { requestId, credential: stateOf(ctx, 'credential'), caller };
}
