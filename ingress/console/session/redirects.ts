import type { Browser } from './browser.ts';
import {
  type IdentityProvider,
  type PendingSignIn,
  SignInEnded,
  SignInRefused,
  type SignInRequest,
  type Tokens,
} from './identity-provider.ts';

const pendingName = 'sign-in under way';
const signedOutName = 'has signed out';
const noOfflineName = 'offline_access was not answered';

export const signedOut = 'You have signed out.';
export const signedOutElsewhere = 'You have signed out in another tab.';
const signedOutHere =
  'You have signed out here. The sign-in provider could not be reached: close the browser to end your session there.';
const notBegunHere =
  'This sign-in was not started in this tab, or the browser stores no data for this page. Sign in again.';

/** Not every issuer knows the scope of operators. Those that do not may refuse the whole sign-in for it. */
const operatorScope = 'svc:admin';
/** Some issuers give a refresh token only for it. At others it ends the session of the browser: Keycloak replaces it by an offline one. */
const offlineScope = 'offline_access';

/** One request of a sign-in, which may take up to four. `offline` says whether this one adds `offline_access`, or an earlier one did. */
type Attempt = SignInRequest & { offline: 'not yet' | 'now' | 'before' };
type KeptSignIn = PendingSignIn & { attempt: Attempt };

type Deps = { provider: Pick<IdentityProvider, 'scope' | 'begin' | 'finish' | 'revoke' | 'endSession'> } & Pick<
  Browser,
  'storage' | 'address' | 'isReload' | 'replaceAddress' | 'leaveFor'
>;

/** The redirects to the issuer and back. */
export function createRedirects(deps: Deps) {
  const { provider, storage, address, isReload, replaceAddress, leaveFor } = deps;

  function takePending(): KeptSignIn | undefined {
    const stored = storage.getItem(pendingName);
    storage.removeItem(pendingName);
    return stored === null ? undefined : (JSON.parse(stored) as KeptSignIn); // written by `request`
  }

  async function request(attempt: Attempt, { inPlace }: { inPlace: boolean }): Promise<void> {
    const silently = attempt.silently || attempt.offline === 'now'; // the user has just signed in
    const { url, pending } = await provider.begin({ hash: address().hash, scope: attempt.scope, silently });
    storage.setItem(pendingName, JSON.stringify({ ...pending, attempt } satisfies KeptSignIn));
    leaveFor(url.href, { inPlace });
  }

  return {
    async begin({ silently }: { silently: boolean }): Promise<void> {
      const offline = storage.getItem(noOfflineName) === null ? 'not yet' : 'before';
      await request({ scope: provider.scope, silently, offline }, { inPlace: silently });
    },

    /**
     * Whether this tab left for the issuer without a prompt, and came back without an answer; true only once. If the request added
     * `offline_access`, the issuer may answer without: the answer is false, and this tab never adds it again.
     */
    takeUnanswered(): boolean {
      const attempt = takePending()?.attempt;
      if (attempt === undefined || isReload()) return false; // after a reload, the page has not left yet
      if (attempt.offline === 'now') storage.setItem(noOfflineName, 'yes');
      return attempt.silently && attempt.offline !== 'now';
    },

    /** Whether the issuer has just sent the browser back from a sign-in. */
    isReturn(): boolean {
      const parameters = address().searchParams;
      return parameters.has('state') && (parameters.has('code') || parameters.has('error'));
    },

    /**
     * The code leaves the address before it is used. Fails with `SignInEnded` if this tab started no sign-in, or the user has signed out
     * meanwhile. Undefined: the page leaves for the issuer again, with other scopes.
     */
    async finish({ hasEnded }: { hasEnded: (request: SignInRequest) => boolean }): Promise<Tokens | undefined> {
      const parameters = address().searchParams;
      const pending = takePending();
      replaceAddress(`${address().pathname}${pending?.hash ?? ''}`);
      if (pending === undefined) throw new SignInEnded(notBegunHere);
      const granted = await provider.finish(parameters, pending).catch((error: unknown) => {
        if (error instanceof SignInRefused) return error;
        throw error;
      });
      const next = nextAttempt(pending.attempt, granted);
      if (granted instanceof SignInRefused) {
        if (next === undefined) throw granted;
        return void (await request(next, { inPlace: true }));
      }
      if (next !== undefined && !hasEnded(pending.attempt)) {
        const hasLeft = await request(next, { inPlace: true }).then(
          () => true,
          () => false, // the tokens are valid without a refresh token, too
        );
        if (hasLeft) return undefined;
      }
      if (!hasEnded(pending.attempt)) return granted;
      void provider.revoke(granted).catch(() => {}); // no user is signed in to use them
      throw new SignInEnded(signedOutElsewhere);
    },

    ...createSignOut(deps),
  };
}

/** The redirect to the issuer that ends its session. */
function createSignOut({ provider, storage, leaveFor }: Deps) {
  return {
    /** Leaves for the issuer to end its session there. If that is not possible, returns the message for the user. */
    async signOut(old: Tokens): Promise<string | undefined> {
      const [revoked, ending] = await Promise.allSettled([provider.revoke(old), provider.endSession()]);
      const url = ending.status === 'fulfilled' ? ending.value : undefined;
      if (url === undefined)
        return ending.status === 'fulfilled' && revoked.status === 'fulfilled' ? signedOut : signedOutHere;
      storage.setItem(signedOutName, 'yes');
      leaveFor(url.href, { inPlace: false });
      return undefined;
    },

    /** Whether `signOut` was the last redirect; true only once. */
    takeSignedOut(): boolean {
      const hasSignedOut = storage.getItem(signedOutName) !== null;
      storage.removeItem(signedOutName);
      return hasSignedOut;
    },
  };
}

/** What to request after this attempt; undefined if its result is the one of the sign-in. */
function nextAttempt(attempt: Attempt, granted: Tokens | SignInRefused): Attempt | undefined {
  const { scope, offline } = attempt;
  const scopes = scope.split(' ');
  const without = (name: string) => scopes.filter((one) => one !== name).join(' ');
  if (granted instanceof SignInRefused) {
    if (offline === 'now') return { ...attempt, scope: without(offlineScope), offline: 'before' };
    const isRefused = granted.error === 'invalid_scope' && scopes.includes(operatorScope);
    return isRefused ? { ...attempt, scope: without(operatorScope) } : undefined;
  }
  const canAdd = offline === 'not yet' && !scopes.includes(offlineScope);
  if (granted.refreshToken !== undefined || !canAdd) return undefined;
  return { ...attempt, scope: `${scope} ${offlineScope}`, offline: 'now' };
}
