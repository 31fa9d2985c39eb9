import { sentCredential } from '../../callers/authorization.ts';
import type { Stage } from '../../request-state.ts';

/** Authenticates an API key or a sign-in token, each by its own stage. */
export function authenticateEither({ withKey, withSignIn }: { withKey: Stage; withSignIn: Stage }): Stage {
  return async function authenticateEither(ctx, next) {
    const { isKey } = sentCredential(ctx.req, 'API key or sign-in token');
    await (isKey ? withKey : withSignIn)(ctx, next);
  };
}
