import { ApiError } from '../../../shared/errors.ts';
import { type Stage, stateOf } from '../../request-state.ts';

/** Refuses requests whose sign-in token does not have this scope, with `FORBIDDEN`. */
export function requireScope(scope: string): Stage {
  return async function requireScope(ctx, next) {
    if (!stateOf(ctx, 'scopes').includes(scope)) {
      throw new ApiError('FORBIDDEN', `This needs a sign-in token with the scope ${scope}.`);
    }
    await next();
  };
}
