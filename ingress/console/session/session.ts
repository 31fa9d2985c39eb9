import type { Browser } from './browser.ts';
import {
  type IdentityProvider,
  IssuerUnavailable,
  SignInEnded,
  SignInRefused,
  type Tokens,
} from './identity-provider.ts';
import { createRedirects, signedOut, signedOutElsewhere } from './redirects.ts';

/** `message` says why the sign-in ended or failed. */
export type SessionState =
  | { name: 'starting' }
  | { name: 'signed out'; message?: string }
  | { name: 'signed in'; account: string }
  | { name: 'signing out' };

const signedInName = 'was signed in';
const expired = 'Your sign-in has ended. Sign in again to continue.';

/** Who is signed in on this page. Tokens are never stored; after a reload the issuer is asked again. */
export function createSession(deps: { provider: IdentityProvider } & Browser) {
  const { sharedStorage, otherTabs } = deps;
  const { state, follow, become } = createState();
  const held = createHeldTokens({ ...deps, onRenewed: take, onEnded: () => end(expired) });
  const redirects = createRedirects(deps);
  let hasEndedElsewhere = false;

  const isSignedInAnywhere = () => sharedStorage.getItem(signedInName) !== null;

  function take(fresh: Tokens): void {
    held.hold(fresh);
    sharedStorage.setItem(signedInName, 'yes');
    become({ name: 'signed in', account: fresh.account });
  }

  function forget(next: SessionState): void {
    held.drop();
    sharedStorage.removeItem(signedInName);
    become(next);
  }

  function end(message?: string): void {
    forget({ name: 'signed out', ...(message && { message }) });
  }

  async function attempt(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      if (error instanceof SignInRefused) return end(error.message);
      const { message } = error instanceof SignInEnded ? error : new IssuerUnavailable(error);
      become({ name: 'signed out', message }); // other tabs are still signed in
    }
  }

  otherTabs.onSignOut(() => {
    hasEndedElsewhere = true;
    if (held.current() !== undefined) end(signedOutElsewhere);
  });

  return {
    state,
    /** Calls back at each change until the returned function is called. */
    follow,
    /** Called once, when the page loads: completes a redirect back from the issuer, or asks it silently for a user who is signed in. */
    async start(): Promise<void> {
      if (redirects.isReturn()) {
        return attempt(async () => {
          const granted = await redirects.finish({
            hasEnded: ({ silently }) => hasEndedElsewhere || (silently && !isSignedInAnywhere()),
          });
          if (granted !== undefined) take(granted);
        });
      }
      const hasSignedOut = redirects.takeSignedOut();
      const isUnanswered = redirects.takeUnanswered(); // so that an issuer that shows an error does not keep the user from the page
      if (!isSignedInAnywhere()) return end(hasSignedOut ? signedOut : undefined);
      if (isUnanswered) return become({ name: 'signed out' });
      await attempt(() => redirects.begin({ silently: true }));
    },
    /** Leaves for the issuer. */
    signIn: (): Promise<void> => attempt(() => redirects.begin({ silently: false })),
    /** Revokes the tokens and leaves for the issuer to end its session; stays on the page if the issuer cannot be reached. */
    async signOut(): Promise<void> {
      const old = held.require();
      forget({ name: 'signing out' });
      otherTabs.announceSignOut();
      const message = await redirects.signOut(old);
      if (message !== undefined) end(message);
    },
    /** The current token; the API says if it is no longer valid. Throws if no user is signed in. */
    token: async (): Promise<string> => held.require().accessToken,
    /** A token to replace `refused`, which the API no longer accepts. */
    async tokenAfter(refused: string): Promise<string> {
      const current = held.require();
      return (current.accessToken === refused ? await held.renew() : current).accessToken;
    },
  };
}

export type Session = ReturnType<typeof createSession>;

function createState() {
  let state: SessionState = { name: 'starting' };
  const followers = new Set<() => void>();
  return {
    state: () => state,
    follow(changed: () => void) {
      followers.add(changed);
      return () => followers.delete(changed);
    },
    become(next: SessionState) {
      state = next;
      for (const changed of followers) changed();
    },
  };
}

/** The tokens of the user who is signed in. They are in this closure only. */
interface HeldTokens {
  /** Undefined if no user is signed in. */
  current(): Tokens | undefined;
  /** The current tokens; throws `SignInEnded` if no user is signed in. */
  require(): Tokens;
  /** Replaces the tokens, and renews them before they expire if there is a refresh token. */
  hold(fresh: Tokens): void;
  drop(): void;
  /** Fails with `SignInEnded` if the issuer refuses, and `IssuerUnavailable` for every other failure. */
  renew(): Promise<Tokens>;
}

const renewBeforeS = 60;
const renewAfterMsMax = 86_400_000;
const retryRenewalMs = 15_000;

/** One minute before a token expires, but not before half its life; at least once a day, well within the range of timers. */
export function renewAfterMs(expiresInS: number): number {
  const ms = Math.max(expiresInS - renewBeforeS, expiresInS / 2) * 1000;
  return Math.min(Math.max(1_000, ms), renewAfterMsMax);
}

function createHeldTokens(deps: {
  provider: Pick<IdentityProvider, 'renew' | 'revoke'>;
  later: (run: () => void, ms: number) => () => void;
  /** Must `hold` the renewed tokens. */
  onRenewed: (fresh: Tokens) => void;
  /** The issuer has refused to renew. */
  onEnded: () => void;
}): HeldTokens {
  const { provider, later, onRenewed, onEnded } = deps;
  let tokens: Tokens | undefined;
  let renewing: Promise<Tokens> | undefined;
  let stopTimer = () => {};

  function require(): Tokens {
    if (tokens === undefined) throw new SignInEnded('You are not signed in.');
    return tokens;
  }

  function scheduleRenewal(ms: number): void {
    stopTimer();
    // A failure here is reported to the next caller that needs a token.
    stopTimer = later(() => void renew().catch(() => {}), ms);
  }

  /** One at a time: an issuer takes a refresh token that is sent twice for a stolen one. */
  function renew(): Promise<Tokens> {
    renewing ??= renewNow().finally(() => {
      renewing = undefined;
    });
    return renewing;
  }

  async function renewNow(): Promise<Tokens> {
    const old = require();
    try {
      const fresh = await provider.renew(old);
      if (tokens !== old) {
        void provider.revoke(fresh).catch(() => {}); // no user is signed in to use them
        throw new SignInEnded('You signed out during the renewal.');
      }
      onRenewed(fresh);
      return fresh;
    } catch (error) {
      if (tokens === old) {
        if (error instanceof SignInEnded) onEnded();
        else scheduleRenewal(retryRenewalMs);
      }
      throw error instanceof SignInEnded ? error : new IssuerUnavailable(error);
    }
  }

  return {
    current: () => tokens,
    require,
    hold(fresh) {
      tokens = fresh;
      stopTimer();
      if (fresh.refreshToken !== undefined) scheduleRenewal(renewAfterMs(fresh.expiresInS));
    },
    drop() {
      stopTimer();
      tokens = undefined;
    },
    renew,
  };
}
