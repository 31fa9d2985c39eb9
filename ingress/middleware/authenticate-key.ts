import { keyPrefix } from '../api-key.ts';
import { bearerToken, keyCredential, keyNeeded } from '../authorization.ts';
import type { Callers } from '../callers.ts';
import type { Stage } from '../request-state.ts';
import type { SignIn } from '../sign-in.ts';

type Parts = { callers: Callers; peppers: readonly string[]; signIn: SignIn };

/**
 * The caller behind `Authorization: Bearer svc_…`. A sign-in token has its place elsewhere and is `INVALID_KEY` here;
 * what is neither is `INVALID_TOKEN` (specification 5.6, API C14).
 */
export function authenticateKey({ callers, peppers, signIn }: Parts): Stage {
  return async function authenticateKey(ctx, next) {
    const token = bearerToken(ctx.req, 'API key');
    if (!token.startsWith(keyPrefix)) {
      await signIn.identify(token);
      throw keyNeeded();
    }
    ctx.state.credential = keyCredential(token, peppers);
    ctx.state.caller = await callers.find(ctx.state.credential);
    await next();
  };
}
