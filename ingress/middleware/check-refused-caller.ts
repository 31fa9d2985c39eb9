import { errorStatus, toApiError } from '../../shared/errors.ts';
import type { CheckCaller } from '../check-caller.ts';
import type { Stage } from '../request-state.ts';
import { lookAtCaller } from './check-present-caller.ts';

/**
 * For a route that admits its requests, which checks their caller: one that is refused before it gets there is looked at
 * then, so that a key that has ended hears that and nothing else.
 */
export function checkRefusedCaller({ checkCaller }: { checkCaller: CheckCaller }): Stage {
  return async function checkRefusedCaller(ctx, next) {
    try {
      await next();
    } catch (error) {
      const isOurFault = errorStatus(toApiError(error).code) >= 500;
      if (ctx.state.checked !== true && !isOurFault) await lookAtCaller(ctx, checkCaller);
      throw error;
    }
  };
}
