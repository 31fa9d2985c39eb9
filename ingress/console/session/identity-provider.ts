import * as oauth from 'oauth4webapi';
import type { ConsoleSettings } from './settings.ts';

/** What the issuer gave: `expiresInS` seconds from now the access token ends. */
export type Tokens = {
  accessToken: string;
  refreshToken: string | undefined;
  account: string;
  scopes: readonly string[];
  expiresInS: number;
};

/** What one sign-in is known by when the browser comes back from the issuer. It is worth nothing without the code. */
export type PendingSignIn = { verifier: string; state: string; nonce: string; hash: string };

/** The issuer says that this person has to sign in again; everything else that fails may succeed later. */
export class SignInEnded extends Error {
  override readonly name = 'SignInEnded';
}

/** The issuer did not answer, or not as one does. */
export class IssuerAway extends Error {
  override readonly name = 'IssuerAway';

  constructor(cause: unknown) {
    super('The sign-in provider cannot be reached, or does not answer as it should. Try again in a moment.', { cause });
  }
}

/** `svc:admin` is given to operators only; `offline_access` is how some issuers are asked for a refresh token. */
const scope = 'openid offline_access svc:admin';
const defaultLifeS = 300;
const requestMs = 10_000;
/** What `prompt=none` ends with where somebody has to be asked (OpenID Connect Core 1.0, 3.1.2.6). */
const needsPerson = new Set([
  'login_required',
  'interaction_required',
  'consent_required',
  'account_selection_required',
]);

export type IdentityProvider = ReturnType<typeof createIdentityProvider>;

/**
 * The configured issuer, by authorization code with PKCE (RFC 7636) as a public client. Its metadata is kept once it was asked
 * for, and asked for anew before anybody is sent there.
 */
export function createIdentityProvider(settings: ConsoleSettings) {
  const issuer = new URL(settings.issuer);
  const client: oauth.Client = { client_id: settings.consoleClientId };
  const auth = oauth.None();
  const plain = { [oauth.allowInsecureRequests]: issuer.protocol === 'http:' };
  const options = () => ({ ...plain, signal: AbortSignal.timeout(requestMs) });
  let found: Promise<oauth.AuthorizationServer> | undefined;

  function discover(): Promise<oauth.AuthorizationServer> {
    found ??= oauth
      .discoveryRequest(issuer, options())
      .then((answer) => oauth.processDiscoveryResponse(issuer, answer));
    found.catch(() => {
      found = undefined;
    });
    return found;
  }

  /** A page that leaves for an issuer that is away is lost in an error page of the browser's. */
  function discoverAnew(): Promise<oauth.AuthorizationServer> {
    found = undefined;
    return discover();
  }

  return {
    /** The address to go to, and what has to be kept until the browser is back. `silently`: nobody is asked anything. */
    async begin({
      hash,
      silently,
    }: {
      hash: string;
      silently: boolean;
    }): Promise<{ url: URL; pending: PendingSignIn }> {
      const server = await discoverAnew();
      const verifier = oauth.generateRandomCodeVerifier();
      const pending = { verifier, state: oauth.generateRandomState(), nonce: oauth.generateRandomNonce(), hash };
      const url = new URL(server.authorization_endpoint ?? '');
      for (const [name, value] of Object.entries({
        client_id: settings.consoleClientId,
        redirect_uri: settings.consoleUrl,
        response_type: 'code',
        scope,
        // RFC 8707, and the name that issuers had for it before.
        resource: settings.audience,
        audience: settings.audience,
        code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        state: pending.state,
        nonce: pending.nonce,
        ...(silently && { prompt: 'none' }),
      })) {
        url.searchParams.set(name, value);
      }
      return { url, pending };
    },

    /** The tokens for the code that the issuer sent the browser back with; `SignInEnded` where it sent none. */
    async finish(parameters: URLSearchParams, pending: PendingSignIn): Promise<Tokens> {
      const server = await discover();
      const code = validate(() => oauth.validateAuthResponse(server, client, parameters, pending.state));
      const answer = await oauth.authorizationCodeGrantRequest(
        server,
        client,
        auth,
        code,
        settings.consoleUrl,
        pending.verifier,
        options(),
      );
      const granted = await oauth.processAuthorizationCodeResponse(server, client, answer, {
        expectedNonce: pending.nonce,
        requireIdToken: true,
      });
      return tokensOf(granted, oauth.getValidatedIdTokenClaims(granted)?.sub ?? '');
    },

    /** Fresh ones for those; `SignInEnded` where the issuer gives no more. */
    async renew(tokens: Tokens): Promise<Tokens> {
      if (tokens.refreshToken === undefined) throw new SignInEnded('This sign-in has come to its end.');
      const server = await discover();
      const answer = await oauth.refreshTokenGrantRequest(server, client, auth, tokens.refreshToken, options());
      try {
        const granted = await oauth.processRefreshTokenResponse(server, client, answer);
        const fresh = tokensOf(granted, tokens.account);
        return {
          ...fresh,
          refreshToken: fresh.refreshToken ?? tokens.refreshToken,
          // Here, one that names no scope grants what was granted before (RFC 6749 6).
          scopes: granted.scope === undefined ? tokens.scopes : fresh.scopes,
        };
      } catch (error) {
        if (error instanceof oauth.ResponseBodyError && error.status < 500) {
          throw new SignInEnded('This sign-in has come to its end.', { cause: error });
        }
        throw error;
      }
    },

    /** Makes these tokens worthless as far as the issuer can (RFC 7009). */
    async revoke({ refreshToken, accessToken }: Tokens): Promise<void> {
      const server = await discover();
      if (server.revocation_endpoint === undefined) return;
      const answer = await oauth.revocationRequest(server, client, auth, refreshToken ?? accessToken, options());
      await oauth.processRevocationResponse(answer);
    },

    /**
     * Where the issuer's own session is ended (OpenID Connect RP-Initiated Logout 1.0, 2); undefined where it does not say.
     * Without an ID token, which would stand in the browser's history; so an issuer may ask whether one really wants to.
     */
    async endSession(): Promise<URL | undefined> {
      const { end_session_endpoint: address } = await discoverAnew();
      if (address === undefined) return undefined;
      const url = new URL(address);
      url.searchParams.set('client_id', settings.consoleClientId);
      url.searchParams.set('post_logout_redirect_uri', settings.consoleUrl);
      return url;
    },
  };
}

function validate(check: () => URLSearchParams): URLSearchParams {
  try {
    return check();
  } catch (error) {
    if (error instanceof oauth.AuthorizationResponseError) {
      const message = needsPerson.has(error.error) ? '' : (error.error_description ?? error.error);
      throw new SignInEnded(message, { cause: error });
    }
    throw error;
  }
}

function tokensOf(granted: oauth.TokenEndpointResponse, account: string): Tokens {
  return {
    accessToken: granted.access_token,
    refreshToken: granted.refresh_token,
    account,
    // A reply that names no scope grants what was asked for (RFC 6749 5.1).
    scopes: (granted.scope ?? scope).split(' '),
    expiresInS: granted.expires_in ?? defaultLifeS,
  };
}
