import type { Caller } from '../../../shared/store/records/account.ts';
import { type CheckCaller, requireAllowed } from '../../callers/check-caller.ts';
import { type AppContext, type Stage, stateOf } from '../../request-state.ts';
import { beginCallerCheck } from './caller-check.ts';

/** Checks that the caller is current. A request with an ended credential fails here. */
export function checkPresentCaller({ checkCaller }: { checkCaller: CheckCaller }): Stage {
  return async function checkPresentCaller(ctx, next) {
    const { caller, now } = await checkCaller.look(beginCallerCheck(ctx));
    ctx.state.caller = caller;
    ctx.state.now = now;
    await next();
  };
}

/** Does the same for a route that needs the limit counters of the caller's account. */
export function readLimitCounters({ checkCaller }: { checkCaller: CheckCaller }): Stage {
  return async function readLimitCounters(ctx, next) {
    requireAllowed(await lookAtCounters(ctx, checkCaller), { address: stateOf(ctx, 'address') });
    await next();
  };
}

export async function lookAtCounters(ctx: AppContext, checkCaller: CheckCaller): Promise<Caller> {
  const { caller, counters } = await checkCaller.readCounters(beginCallerCheck(ctx));
  ctx.state.caller = caller;
  ctx.state.counters = counters;
  ctx.state.now = counters.now;
  return caller;
}
