import type { ChangeAccount } from '../../shared/account-changes/change-account.ts';
import { useAgain } from '../../shared/account-changes/remove-account.ts';
import { ApiError, errorStatus, toApiError } from '../../shared/errors.ts';
import { allowanceOf } from '../../shared/limits/quota.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Caller } from '../../shared/store/records/account.ts';
import { filesOf } from '../../shared/store/records/key.ts';
import { keyCredential, keyNeeded, sentCredential, signInNeeded } from '../authentication/authorization.ts';
import type { Callers } from '../authentication/callers.ts';
import { type CheckCaller, type CheckRequest, requireAllowed } from '../authentication/check-caller.ts';
import type { DisplayNames, SignIn } from '../authentication/sign-in.ts';
import { limitHeaders } from '../limits/limit-errors.ts';
import type { LimitCalls, LimitFailures } from '../limits/minute-counts.ts';
import { clientAddress, networkOf } from '../listener/request-headers.ts';
import { type AppContext, type Stage, stateOf, timeOf } from '../request-state.ts';

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

/** Authenticates an API key or a sign-in token, each by its own stage. */
export function authenticateEither({ withKey, withSignIn }: { withKey: Stage; withSignIn: Stage }): Stage {
  return async function authenticateEither(ctx, next) {
    const { isKey } = sentCredential(ctx.req, 'API key or sign-in token');
    await (isKey ? withKey : withSignIn)(ctx, next);
  };
}

/** Checks that the caller is current. A request with an ended credential fails here. */
export function checkPresentCaller({ checkCaller }: { checkCaller: CheckCaller }): Stage {
  return async function checkPresentCaller(ctx, next) {
    const { caller, now } = await checkCaller.look(beginCallerCheck(ctx));
    ctx.state.caller = caller;
    ctx.state.now = now;
    await next();
  };
}

/** Does the same for a route that needs the limit counters of the caller's account. */
export function readLimitCounters({ checkCaller }: { checkCaller: CheckCaller }): Stage {
  return async function readLimitCounters(ctx, next) {
    requireAllowed(await lookAtCounters(ctx, checkCaller), { address: stateOf(ctx, 'address') });
    await next();
  };
}

async function lookAtCounters(ctx: AppContext, checkCaller: CheckCaller): Promise<Caller> {
  const { caller, counters } = await checkCaller.readCounters(beginCallerCheck(ctx));
  ctx.state.caller = caller;
  ctx.state.counters = counters;
  ctx.state.now = counters.now;
  return caller;
}

/**
 * Checks the caller of a request that is refused before its admission, where the caller is usually checked. So an ended key always gets
 * that error, and any other caller gets its limit headers (contract.md#e6-limit-headers). If the caller in memory is suspended, it is
 * checked first, so that the body is read only if the suspension was lifted on another ingress.
 */
export function checkRefusedCaller({ checkCaller }: { checkCaller: CheckCaller }): Stage {
  return async function checkRefusedCaller(ctx, next) {
    if (ctx.state.caller?.suspended) await look(ctx);
    try {
      await next();
    } catch (error) {
      const isOurFault = errorStatus(toApiError(error).code) >= 500;
      if (ctx.state.callerCheck === 'due' && !isOurFault) await look(ctx);
      throw error;
    }
  };

  async function look(ctx: AppContext): Promise<void> {
    const caller = await lookAtCounters(ctx, checkCaller);
    const allowance = allowanceOf(caller, stateOf(ctx, 'planFile'));
    ctx.set(limitHeaders(stateOf(ctx, 'counters'), allowance, caller.keyScope?.limits));
    requireAllowed(caller, { address: stateOf(ctx, 'address') });
  }
}

/** Returns the data for the check of this request's caller, and marks the check as begun. */
export function beginCallerCheck(ctx: AppContext): CheckRequest {
  const { requestId, caller, claim } = ctx.state;
  ctx.state.callerCheck = 'begun';
  return { requestId, address: stateOf(ctx, 'address'), credential: stateOf(ctx, 'credential'), caller, claim };
}

/** Refuses requests whose sign-in token is not one of an operator (contract.md#e8-operators), with `FORBIDDEN`. */
export function requireOperator(): Stage {
  return async function requireOperator(ctx, next) {
    if (!stateOf(ctx, 'isOperator')) throw new ApiError('FORBIDDEN', 'This needs a sign-in token of an operator.');
    await next();
  };
}

/**
 * Refuses keys that may use no files and no batches with `FORBIDDEN`: guest keys, and keys that say so (contract.md#ho7-files-of-a-key).
 */
export const refuseWithoutFiles: Stage = async function refuseWithoutFiles(ctx, next) {
  const { account, keyScope } = stateOf(ctx, 'caller');
  if (account.startsWith('device:')) throw new ApiError('FORBIDDEN', 'Guest keys have no files and no batches.');
  if (keyScope !== undefined && filesOf(keyScope) === 'none') {
    throw new ApiError('FORBIDDEN', 'This API key may use no files and no batches.');
  }
  await next();
};

/** Counts each write of the caller's own keys and settings, before its body is read (contract.md#ho4-what-an-account-creates). */
export function limitSettings({
  limitSettingsWrites,
}: {
  limitSettingsWrites: (account: string) => Promise<void>;
}): Stage {
  return async function limitSettings(ctx, next) {
    await limitSettingsWrites(stateOf(ctx, 'caller').account);
    await next();
  };
}

/** Counts each call for a guest key by its network, before its body is read. It needs no credential, so device ids could be guessed. */
export function limitGuestCalls({ limitGuestCalls: limit }: { limitGuestCalls: LimitCalls }): Stage {
  return async function limitGuestCalls(ctx, next) {
    await limit(networkOf(stateOf(ctx, 'address')), stateOf(ctx, 'planFile').guestCallsPerMinute);
    await next();
  };
}

/**
 * Ensures that an account that has just got a file, a batch or a webhook is not one that counts as removed
 * (contract.md#si4-removal-of-an-account): with a sign-in token, none of these changes the account. The account is read once that is
 * stored. So if a removal ends at the same time, either this sees the end, or the removal sees what was stored, in its next pass if this
 * one looked before.
 */
export function useAccountAgain({
  changeAccount,
  log,
}: {
  changeAccount: ChangeAccount;
  log: Pick<Log, 'warn'>;
}): Stage {
  return async function useAccountAgain(ctx, next) {
    await next();
    const { account, version } = stateOf(ctx, 'caller');
    await changeAccount(account, useAgain(timeOf(ctx)), version).catch((error: unknown) => {
      log.warn({ err: error, account }, 'an account may be in use and count as removed, until it is used again');
    });
  };
}

/** Stores the client's address at the start of the request: a closed connection has no address any more. */
export function noteClientAddress({ trustedProxyHops }: { trustedProxyHops: number }): Stage {
  return function noteClientAddress(ctx, next) {
    ctx.state.address = clientAddress(ctx.req, trustedProxyHops);
    return next();
  };
}
