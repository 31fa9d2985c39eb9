import { sentCredential, signInNeeded } from '../../callers/authorization.ts';
import type { Callers } from '../../callers/callers.ts';
import type { DisplayNames } from '../../callers/display-names.ts';
import type { SignIn } from '../../callers/sign-in.ts';
import type { Stage } from '../../request-state.ts';

type Deps = { callers: Callers; signIn: SignIn; displayNames: DisplayNames };

/** Finds the account of a sign-in token, and whether it is an operator. An API key is `INVALID_TOKEN` here. */
export function authenticateSignIn({ callers, signIn, displayNames }: Deps): Stage {
  return async function authenticateSignIn(ctx, next) {
    const { token, isKey } = sentCredential(ctx.req, 'sign-in token');
    if (isKey) throw signInNeeded();
    const { account, isOperator, name } = await signIn.identify(token);
    ctx.state.credential = { account };
    ctx.state.callerCheck = 'due';
    ctx.state.isOperator = isOperator;
    ctx.state.caller = await callers.find(ctx.state.credential);
    await next();
    if (name === undefined) return;
    // The account may exist only now.
    const isChange = ctx.method !== 'GET' && ctx.method !== 'HEAD';
    const keeping = displayNames.keep(account, name, { isChange });
    if (isChange) await keeping;
  };
}
