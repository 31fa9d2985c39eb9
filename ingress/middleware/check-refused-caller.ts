import { errorStatus, toApiError } from '../../shared/errors.ts';
import { allowanceOf } from '../../shared/limits/allowance.ts';
import type { PlanFile } from '../../shared/plan-file.ts';
import { type CheckCaller, requireActive } from '../check-caller.ts';
import { limitHeaders } from '../limits/limit-headers.ts';
import { type Stage, stateOf } from '../request-state.ts';
import { lookAtStanding } from './check-present-caller.ts';

/**
 * For a route that admits its requests, which checks their caller: one that is refused before it gets there is looked at
 * then, so that a key that has ended hears that and nothing else, and every other hears where it stands.
 */
export function checkRefusedCaller({ checkCaller, planFile }: { checkCaller: CheckCaller; planFile: PlanFile }): Stage {
  return async function checkRefusedCaller(ctx, next) {
    try {
      await next();
    } catch (error) {
      const isOurFault = errorStatus(toApiError(error).code) >= 500;
      if (ctx.state.checked !== true && !isOurFault) {
        const caller = await lookAtStanding(ctx, checkCaller);
        ctx.set(limitHeaders(stateOf(ctx, 'standing'), allowanceOf(caller, planFile)));
        requireActive(caller);
      }
      throw error;
    }
  };
}
