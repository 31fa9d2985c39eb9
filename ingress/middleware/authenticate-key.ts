import { keyPrefix } from '../api-key.ts';
import { bearerToken, invalidKey } from '../authorization.ts';
import type { FindCaller } from '../callers.ts';
import type { Stage } from '../request-state.ts';
import type { SignIn } from '../sign-in.ts';

/**
 * The caller behind `Authorization: Bearer svc_…`. A sign-in token has its place elsewhere and is `INVALID_KEY` here;
 * what is neither is `INVALID_TOKEN` (specification 5.6, API C14).
 */
export function authenticateKey({ findCaller, signIn }: { findCaller: FindCaller; signIn: SignIn }): Stage {
  return async function authenticateKey(ctx, next) {
    const token = bearerToken(ctx.req);
    if (!token.startsWith(keyPrefix)) {
      await signIn.identify(token);
      throw invalidKey();
    }
    ctx.state.caller = await findCaller(token);
    await next();
  };
}
