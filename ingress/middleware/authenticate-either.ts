import type { Store } from '../../shared/store/store.ts';
import { keyPrefix } from '../api-key.ts';
import { bearerToken } from '../authorization.ts';
import type { FindCaller } from '../callers.ts';
import type { Stage } from '../request-state.ts';
import type { SignIn } from '../sign-in.ts';

type Parts = { findCaller: FindCaller; signIn: SignIn; store: Store; defaultPlan: string };

/**
 * The caller behind an API key or behind a sign-in token (API C14). An account that has never been used stands on the
 * default plan, on which it will come into being (API C13).
 */
export function authenticateEither({ findCaller, signIn, store, defaultPlan }: Parts): Stage {
  return async function authenticateEither(ctx, next) {
    const token = bearerToken(ctx.req);
    if (token.startsWith(keyPrefix)) {
      ctx.state.caller = await findCaller(token);
    } else {
      const { account } = await signIn.identify(token);
      const known = await store.findAccount(account);
      ctx.state.caller = { account, plan: known?.plan ?? defaultPlan };
    }
    await next();
  };
}
