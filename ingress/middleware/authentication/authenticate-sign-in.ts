import { keyPrefix } from '../../callers/api-key.ts';
import { bearerToken, signInNeeded } from '../../callers/authorization.ts';
import type { Callers } from '../../callers/callers.ts';
import type { SignIn } from '../../callers/sign-in.ts';
import type { Stage } from '../../request-state.ts';

/** The account that signed in, and what its token allows it; an API key is `INVALID_TOKEN` here. */
export function authenticateSignIn({ callers, signIn }: { callers: Callers; signIn: SignIn }): Stage {
  return async function authenticateSignIn(ctx, next) {
    const token = bearerToken(ctx.req, 'sign-in token');
    if (token.startsWith(keyPrefix)) throw signInNeeded();
    const { account, scopes } = await signIn.identify(token);
    ctx.state.credential = { account };
    ctx.state.callerCheck = 'due';
    ctx.state.scopes = scopes;
    ctx.state.caller = await callers.find(ctx.state.credential);
    await next();
  };
}
