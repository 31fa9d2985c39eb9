import {
  type IdentityProvider,
  IssuerAway,
  type PendingSignIn,
  SignInEnded,
  type Tokens,
} from './identity-provider.ts';

/** `message` is why somebody who was signed in is not any more, or why signing in failed. */
export type SessionState =
  | { name: 'starting' }
  | { name: 'signed out'; message?: string }
  | { name: 'signed in'; account: string; isOperator: boolean }
  | { name: 'signing out' };

export interface Session {
  state(): SessionState;
  /** Calls back at each change, until what it returns is called. */
  follow(changed: () => void): () => void;
  /** Once, when the page loads: takes up what the issuer sent the browser back with, or what this tab had before. */
  start(): Promise<void>;
  /** Leaves for the issuer. */
  signIn(): Promise<void>;
  /** Ends the tokens and the issuer's session, for which it leaves for the issuer; or stays where that cannot be reached. */
  signOut(): Promise<void>;
  /** The present token; the API says if it is not good any more. Throws where nobody is signed in. */
  token(): Promise<string>;
  /** One in place of `refused`, which the API does not take any more. */
  tokenAfter(refused: string): Promise<string>;
}

/** What the session needs of a browser. */
export type Surroundings = {
  /** Of this tab only. Holds no token, ever: what a sign-in under way is known by, and what this tab has done. */
  storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;
  /** The page's address, and how it is replaced without a trace in the history. */
  address: () => URL;
  replaceAddress: (url: string) => void;
  /** `inPlace`: Back leads to where one was before, and not here again. */
  leaveFor: (url: string, options: { inPlace: boolean }) => void;
  later: (run: () => void, ms: number) => () => void;
  /** Other tabs of this page, which hear of it when somebody signs out in this one. */
  others: { tell: () => void; hear: (run: () => void) => void };
};

const pendingName = 'sign-in under way';
const signedInName = 'was signed in';
const signedOutName = 'has signed out';
const retryRenewalMs = 15_000;
const adminScope = 'svc:admin';

/** Who is signed in on this page. Tokens are in this closure and nowhere else; a reload asks the issuer again. */
export function createSession(parts: { provider: IdentityProvider } & Surroundings): Session {
  const { provider, storage, later } = parts;
  const followers = new Set<() => void>();
  let state: SessionState = { name: 'starting' };
  let tokens: Tokens | undefined;
  let renewing: Promise<Tokens> | undefined;
  let stopTimer = () => {};

  function become(next: SessionState): void {
    state = next;
    for (const changed of followers) changed();
  }

  function take(fresh: Tokens): Tokens {
    tokens = fresh;
    storage.setItem(signedInName, 'yes');
    stopTimer();
    if (fresh.refreshToken !== undefined) scheduleRenewal(renewAfterMs(fresh.expiresInS));
    become({ name: 'signed in', account: fresh.account, isOperator: fresh.scopes.includes(adminScope) });
    return fresh;
  }

  function forget(next: SessionState): void {
    stopTimer();
    tokens = undefined;
    storage.removeItem(signedInName);
    become(next);
  }

  function end(message?: string): void {
    forget({ name: 'signed out', ...(message && { message }) });
  }

  function scheduleRenewal(ms: number): void {
    stopTimer();
    // What fails here is seen by whoever needs a token next.
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
    const old = requireTokens();
    try {
      const fresh = await provider.renew(old);
      if (tokens === old) return take(fresh);
      void provider.revoke(fresh).catch(() => {}); // nobody is there for it any more
      throw new SignInEnded('Signed out meanwhile.');
    } catch (error) {
      if (tokens === old) {
        if (error instanceof SignInEnded) end('Your sign-in has ended. Sign in again to go on.');
        else scheduleRenewal(retryRenewalMs);
      }
      throw error instanceof SignInEnded ? error : new IssuerAway(error);
    }
  }

  function requireTokens(): Tokens {
    if (tokens === undefined) throw new SignInEnded('Nobody is signed in.');
    return tokens;
  }

  async function begin(options: { silently: boolean }): Promise<void> {
    try {
      const { url, pending } = await provider.begin({ hash: parts.address().hash, ...options });
      storage.setItem(pendingName, JSON.stringify(pending));
      parts.leaveFor(url.href, { inPlace: options.silently });
    } catch (error) {
      end(new IssuerAway(error).message);
    }
  }

  async function finish(parameters: URLSearchParams): Promise<void> {
    const pending = takePending();
    parts.replaceAddress(`${parts.address().pathname}${pending?.hash ?? ''}`);
    if (pending === undefined) return end(notBegunHere);
    try {
      take(await provider.finish(parameters, pending));
    } catch (error) {
      end(error instanceof SignInEnded ? error.message : new IssuerAway(error).message);
    }
  }

  function takePending(): PendingSignIn | undefined {
    const stored = storage.getItem(pendingName);
    storage.removeItem(pendingName);
    return stored === null ? undefined : (JSON.parse(stored) as PendingSignIn); // written by `begin`
  }

  parts.others.hear(() => {
    if (tokens !== undefined) end('You have signed out in another tab.');
  });

  return {
    state: () => state,
    follow(changed) {
      followers.add(changed);
      return () => followers.delete(changed);
    },
    async start() {
      const parameters = parts.address().searchParams;
      if (parameters.has('state') && (parameters.has('code') || parameters.has('error'))) return finish(parameters);
      const hasSignedOut = storage.getItem(signedOutName) !== null;
      storage.removeItem(signedOutName);
      if (storage.getItem(signedInName) === null) return end(hasSignedOut ? signedOut : undefined);
      storage.removeItem(signedInName); // not asked for twice, whatever comes of it
      await begin({ silently: true });
    },
    signIn: () => begin({ silently: false }),
    async signOut() {
      const old = requireTokens();
      forget({ name: 'signing out' });
      parts.others.tell();
      const [revoked, ending] = await Promise.allSettled([provider.revoke(old), provider.endSession()]);
      const url = ending.status === 'fulfilled' ? ending.value : undefined;
      if (url === undefined)
        return end(ending.status === 'fulfilled' && revoked.status === 'fulfilled' ? signedOut : signedOutHere);
      storage.setItem(signedOutName, 'yes');
      parts.leaveFor(url.href, { inPlace: false });
    },
    async token() {
      return requireTokens().accessToken;
    },
    async tokenAfter(refused) {
      const present = requireTokens();
      return (present.accessToken === refused ? await renew() : present).accessToken;
    },
  };
}

const renewBeforeS = 60;
const renewAfterMsMax = 86_400_000;

/** A minute before a token ends, and not before the half of its life; once a day at least, which timers can count. */
export function renewAfterMs(expiresInS: number): number {
  const ms = Math.max(expiresInS - renewBeforeS, expiresInS / 2) * 1000;
  return Math.min(Math.max(1_000, ms), renewAfterMsMax);
}

const signedOut = 'You have signed out.';
const signedOutHere =
  'You have signed out here. The sign-in provider could not be told: close the browser to end your session there.';
const notBegunHere =
  'This sign-in was not begun in this tab, or the browser keeps nothing for this page. Sign in again.';
