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
  | { name: 'signed in'; account: string; isOperator: boolean };

export interface Session {
  state(): SessionState;
  /** Calls back at each change, until what it returns is called. */
  follow(changed: () => void): () => void;
  /** Once, when the page loads: takes up what the issuer sent the browser back with, or what this tab had before. */
  start(): Promise<void>;
  /** Leaves for the issuer. */
  signIn(): Promise<void>;
  /** Ends the tokens and the issuer's session, and leaves for it; or stays where the issuer cannot be reached. */
  signOut(): Promise<void>;
  /** The present token; the API says if it is not good any more. Throws where nobody is signed in. */
  token(): Promise<string>;
  /** One in place of `refused`, which the API does not take any more. */
  tokenAfter(refused: string): Promise<string>;
}

/** What the session needs of a browser. */
export type Surroundings = {
  /** Of this tab only. Holds no token, ever: what a sign-in under way is known by, and whether there was one. */
  storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;
  /** The page's address, and how it is replaced without a trace in the history. */
  address: () => URL;
  replaceAddress: (url: string) => void;
  leaveFor: (url: string) => void;
  later: (run: () => void, ms: number) => () => void;
};

const pendingName = 'sign-in under way';
const rememberedName = 'was signed in';
const renewBeforeS = 60;
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
    storage.setItem(rememberedName, 'yes');
    scheduleRenewal(Math.max(1, fresh.expiresInS - renewBeforeS) * 1000);
    become({ name: 'signed in', account: fresh.account, isOperator: fresh.scopes.includes(adminScope) });
    return fresh;
  }

  function end(message?: string): void {
    stopTimer();
    tokens = undefined;
    storage.removeItem(rememberedName);
    become({ name: 'signed out', ...(message && { message }) });
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
      if (tokens !== old) throw new SignInEnded('Signed out meanwhile.');
      return take(fresh);
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

  async function begin(silently: boolean): Promise<void> {
    const { url, pending } = await provider.begin({ hash: parts.address().hash, silently });
    storage.setItem(pendingName, JSON.stringify(pending));
    parts.leaveFor(url.href);
  }

  async function finish(parameters: URLSearchParams): Promise<void> {
    const pending = takePending();
    parts.replaceAddress(`${parts.address().pathname}${pending?.hash ?? ''}`);
    if (pending === undefined) return end('This sign-in was not begun in this tab. Sign in again.');
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

  return {
    state: () => state,
    follow(changed) {
      followers.add(changed);
      return () => followers.delete(changed);
    },
    async start() {
      const parameters = parts.address().searchParams;
      if (parameters.has('state') && (parameters.has('code') || parameters.has('error'))) return finish(parameters);
      if (storage.getItem(rememberedName) === null) return end();
      storage.removeItem(rememberedName); // not asked for twice, whatever comes of it
      await begin(true).catch((error: unknown) => end(new IssuerAway(error).message));
    },
    async signIn() {
      try {
        await begin(false);
      } catch (error) {
        end(new IssuerAway(error).message);
      }
    },
    async signOut() {
      const old = requireTokens();
      const told = Promise.all([provider.endSession(), provider.revoke(old)]);
      end('Signing out …');
      try {
        const [url] = await told;
        end('You have signed out.');
        if (url !== undefined) parts.leaveFor(url.href);
      } catch {
        end(signedOutHere);
      }
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

const signedOutHere =
  'You have signed out here. The sign-in provider could not be told: close the browser to end your session there.';
