import { errorStatus, toApiError } from '../../../shared/errors.ts';
import { allowanceOf } from '../../../shared/limits/quota.ts';
import { type CheckCaller, requireAllowed } from '../../callers/check-caller.ts';
import { limitHeaders } from '../../limits/limit-headers.ts';
import { type AppContext, type Stage, stateOf } from '../../request-state.ts';
import { lookAtCounters } from './check-present-caller.ts';

/**
 * Checks the caller of a request that is refused before its admission, where the caller is usually checked. So an ended key always gets
 * that error, and any other caller gets its limit headers (contract.md#e6-limit-headers). If the caller in memory is suspended, it is
 * checked first, so that the body is read only if the suspension was lifted on another ingress.
 */
export function checkRefusedCaller({ checkCaller }: { checkCaller: CheckCaller }): Stage {
  return async function checkRefusedCaller(ctx, next) {
    if (ctx.state.caller?.suspended) await look(ctx);
    try {
      await next();
    } catch (error) {
      const isOurFault = errorStatus(toApiError(error).code) >= 500;
      if (ctx.state.callerCheck === 'due' && !isOurFault) await look(ctx);
      throw error;
    }
  };

  async function look(ctx: AppContext): Promise<void> {
    const caller = await lookAtCounters(ctx, checkCaller);
    const allowance = allowanceOf(caller, stateOf(ctx, 'planFile'));
    ctx.set(limitHeaders(stateOf(ctx, 'counters'), allowance, caller.keyScope?.limits));
    requireAllowed(caller, { address: stateOf(ctx, 'address') });
  }
}
