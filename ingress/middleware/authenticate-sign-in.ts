import { keyPrefix } from '../api-key.ts';
import { bearerToken, invalidToken } from '../authorization.ts';
import type { Stage } from '../request-state.ts';
import type { SignIn } from '../sign-in.ts';

/** The account that signed in; an API key is `INVALID_TOKEN` here (API C14). */
export function authenticateSignIn({ signIn }: { signIn: SignIn }): Stage {
  return async function authenticateSignIn(ctx, next) {
    const token = bearerToken(ctx.req);
    if (token.startsWith(keyPrefix)) throw invalidToken();
    const { account } = await signIn.identify(token);
    ctx.state.account = account;
    await next();
  };
}
