import { errorStatus, toApiError } from '../../../shared/errors.ts';
import { allowanceOf } from '../../../shared/limits/allowance.ts';
import type { PlanFile } from '../../../shared/process/plan-file.ts';
import { type CheckCaller, requireActive } from '../../callers/check-caller.ts';
import { limitHeaders } from '../../limits/limit-headers.ts';
import { type AppContext, type Stage, stateOf } from '../../request-state.ts';
import { lookAtCounters } from './check-present-caller.ts';

/**
 * For a route that admits its requests, which checks their caller: one that is refused before it gets there is looked at
 * then, so that a key that has ended hears that and nothing else, and every other hears where it stands. A caller that was
 * suspended when it was found is looked at first, so that its body is read only if the suspension was lifted elsewhere.
 */
export function checkRefusedCaller({ checkCaller, planFile }: { checkCaller: CheckCaller; planFile: PlanFile }): Stage {
  return async function checkRefusedCaller(ctx, next) {
    if (ctx.state.caller?.suspended) await look(ctx);
    try {
      await next();
    } catch (error) {
      const isOurFault = errorStatus(toApiError(error).code) >= 500;
      if (ctx.state.checked !== true && !isOurFault) await look(ctx);
      throw error;
    }
  };

  async function look(ctx: AppContext): Promise<void> {
    const caller = await lookAtCounters(ctx, checkCaller);
    ctx.set(limitHeaders(stateOf(ctx, 'counters'), allowanceOf(caller, planFile)));
    requireActive(caller);
  }
}
