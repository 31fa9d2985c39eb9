import { sentCredential, signInNeeded } from '../../callers/authorization.ts';
import type { Callers } from '../../callers/callers.ts';
import type { SignIn } from '../../callers/sign-in.ts';
import type { Stage } from '../../request-state.ts';

/** Finds the account of a sign-in token, and whether it is an operator. An API key is `INVALID_TOKEN` here. */
export function authenticateSignIn({ callers, signIn }: { callers: Callers; signIn: SignIn }): Stage {
  return async function authenticateSignIn(ctx, next) {
    const { token, isKey } = sentCredential(ctx.req, 'sign-in token');
    if (isKey) throw signInNeeded();
    const { account, isOperator } = await signIn.identify(token);
    ctx.state.credential = { account };
    ctx.state.callerCheck = 'due';
    ctx.state.isOperator = isOperator;
    ctx.state.caller = await callers.find(ctx.state.credential);
    await next();
  };
}
