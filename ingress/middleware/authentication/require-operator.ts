import { ApiError } from '../../../shared/errors.ts';
import { type Stage, stateOf } from '../../request-state.ts';

/** Refuses requests whose sign-in token is not one of an operator (contract.md#e8-operators), with `FORBIDDEN`. */
export function requireOperator(): Stage {
  return async function requireOperator(ctx, next) {
    if (!stateOf(ctx, 'isOperator')) throw new ApiError('FORBIDDEN', 'This needs a sign-in token of an operator.');
    await next();
  };
}
