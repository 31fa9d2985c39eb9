import { keyCredential, keyNeeded, sentCredential } from '../../callers/authorization.ts';
import type { Callers } from '../../callers/callers.ts';
import type { SignIn } from '../../callers/sign-in.ts';
import type { LimitFailures } from '../../limits/limit-failures.ts';
import { networkOf } from '../../listener/client-address.ts';
import { type Stage, stateOf } from '../../request-state.ts';

/**
 * Finds the caller of an API key. A sign-in token is `INVALID_KEY` here; anything else is `INVALID_TOKEN` (contract.md#t3-credentials). A
 * key that is not in memory is `rate_limit_exceeded` if its network has sent too many unknown keys.
 */
export function authenticateKey(deps: {
  callers: Pick<Callers, 'find' | 'knows'>;
  limitAuthFailures: LimitFailures;
  peppers: readonly string[];
  signIn: SignIn;
}): Stage {
  const { callers, limitAuthFailures, peppers, signIn } = deps;
  return async function authenticateKey(ctx, next) {
    const { token, isKey } = sentCredential(ctx.req, 'API key');
    if (!isKey) {
      await signIn.identify(token);
      throw keyNeeded();
    }
    const credential = keyCredential(token, peppers);
    ctx.state.credential = credential;
    ctx.state.callerCheck = 'due';
    const find = () => callers.find(credential);
    ctx.state.caller = await (callers.knows(credential)
      ? find()
      : limitAuthFailures(networkOf(stateOf(ctx, 'address')), find));
    return next();
  };
}
