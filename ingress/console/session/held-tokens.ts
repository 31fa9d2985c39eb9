import { type IdentityProvider, IssuerUnavailable, SignInEnded, type Tokens } from './identity-provider.ts';

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

export function createHeldTokens(deps: {
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
