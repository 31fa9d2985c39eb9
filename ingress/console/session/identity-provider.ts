import * as oauth from 'oauth4webapi';
import type { ConsoleSettings } from './browser.ts';

/** Tokens from the issuer; the access token expires in `expiresInS` seconds. */
export type Tokens = {
  accessToken: string;
  refreshToken: string | undefined;
  account: string;
  expiresInS: number;
};

/** How the issuer is asked. `silently`: the user is not prompted. */
export type SignInRequest = { scope: string; silently: boolean };

/** Identifies a sign-in when the browser returns from the issuer. Useless without the code. */
export type PendingSignIn = { verifier: string; state: string; nonce: string; hash: string };

/** The user has to sign in again. After every other failure a retry may succeed. */
export class SignInEnded extends Error {
  override readonly name: string = 'SignInEnded';
}

/** The issuer has refused a sign-in. `error` is its code (RFC 6749, 4.1.2.1); the message is empty if the user only has to sign in. */
export class SignInRefused extends SignInEnded {
  override readonly name = 'SignInRefused';
  readonly error: string;

  constructor(cause: oauth.AuthorizationResponseError) {
    super(needsUser.has(cause.error) ? '' : (cause.error_description ?? cause.error), { cause });
    this.error = cause.error;
  }
}

/** The issuer did not answer, or its answer is invalid. */
export class IssuerUnavailable extends Error {
  override readonly name = 'IssuerUnavailable';

  constructor(cause: unknown) {
    super('The sign-in provider cannot be reached, or its answer is invalid. Try again in a moment.', { cause });
  }
}

const defaultLifeS = 300;
const requestMs = 10_000;
/** Errors of `prompt=none` if the user has to interact (OpenID Connect Core 1.0, 3.1.2.6). */
const needsUser = new Set(['login_required', 'interaction_required', 'consent_required', 'account_selection_required']);

export type IdentityProvider = ReturnType<typeof createIdentityProvider>;

/**
 * The configured issuer, as a public client with authorization code and PKCE (RFC 7636). Its metadata is cached, and fetched again before
 * each redirect to it.
 */
export function createIdentityProvider(settings: ConsoleSettings) {
  const issuer = new URL(settings.issuer);
  const plain = { [oauth.allowInsecureRequests]: issuer.protocol === 'http:' };
  const options = () => ({ ...plain, signal: AbortSignal.timeout(requestMs) });
  const discovery = createDiscovery(issuer, options);

  return {
    /** The scopes to request first. */
    scope: settings.consoleScopes,

    /** The address to go to, and the state to keep until the browser is back. */
    async begin(request: SignInRequest & { hash: string }): Promise<{ url: URL; pending: PendingSignIn }> {
      const { scope, silently, hash } = request;
      const { consoleResource: resource } = settings;
      const server = await discovery.refresh();
      const verifier = oauth.generateRandomCodeVerifier();
      const pending = { verifier, state: oauth.generateRandomState(), nonce: oauth.generateRandomNonce(), hash };
      const url = new URL(server.authorization_endpoint ?? '');
      for (const [name, value] of Object.entries({
        client_id: settings.consoleClientId,
        redirect_uri: settings.consoleUrl,
        response_type: 'code',
        scope,
        // RFC 8707, and the name that issuers used before it.
        ...(resource !== '' && { resource, audience: resource }),
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

    /**
     * The address that ends the issuer's own session (OpenID Connect RP-Initiated Logout 1.0, 2); undefined if the issuer names none.
     * Without an ID token, which would be in the browser's history; so an issuer may ask the user to confirm.
     */
    async endSession(): Promise<URL | undefined> {
      const { end_session_endpoint: address } = await discovery.refresh();
      if (address === undefined) return undefined;
      const url = new URL(address);
      url.searchParams.set('client_id', settings.consoleClientId);
      url.searchParams.set('post_logout_redirect_uri', settings.consoleUrl);
      return url;
    },

    ...createTokenRequests({ settings, discover: discovery.current, options }),
  };
}

function createDiscovery(issuer: URL, options: () => oauth.DiscoveryRequestOptions) {
  let found: Promise<oauth.AuthorizationServer> | undefined;

  function current(): Promise<oauth.AuthorizationServer> {
    found ??= oauth
      .discoveryRequest(issuer, options())
      .then((answer) => oauth.processDiscoveryResponse(issuer, answer));
    found.catch(() => {
      found = undefined;
    });
    return found;
  }

  return {
    current,
    /** Before each redirect: if the issuer is unavailable, the redirect would end at an error page of the browser. */
    refresh() {
      found = undefined;
      return current();
    },
  };
}

function createTokenRequests(deps: {
  settings: ConsoleSettings;
  discover: () => Promise<oauth.AuthorizationServer>;
  options: () => oauth.TokenEndpointRequestOptions;
}) {
  const { settings, discover, options } = deps;
  const client: oauth.Client = { client_id: settings.consoleClientId };
  const auth = oauth.None();

  return {
    /** Exchanges the code that the issuer sent the browser back with; fails with `SignInRefused` if it sent none. */
    async finish(parameters: URLSearchParams, { state, nonce, verifier }: PendingSignIn): Promise<Tokens> {
      const server = await discover();
      const code = validate(() => oauth.validateAuthResponse(server, client, parameters, state));
      const answer = await oauth.authorizationCodeGrantRequest(
        server,
        client,
        auth,
        code,
        settings.consoleUrl,
        verifier,
        options(),
      );
      const checks = { expectedNonce: nonce, requireIdToken: true };
      const granted = await oauth.processAuthorizationCodeResponse(server, client, answer, checks);
      return tokensOf(granted, oauth.getValidatedIdTokenClaims(granted)?.sub ?? '');
    },

    /** Fails with `SignInEnded` if the issuer grants no more tokens. */
    async renew(tokens: Tokens): Promise<Tokens> {
      if (tokens.refreshToken === undefined) throw new SignInEnded('This sign-in has expired.');
      const server = await discover();
      const answer = await oauth.refreshTokenGrantRequest(server, client, auth, tokens.refreshToken, options());
      try {
        const granted = await oauth.processRefreshTokenResponse(server, client, answer);
        const fresh = tokensOf(granted, tokens.account);
        return { ...fresh, refreshToken: fresh.refreshToken ?? tokens.refreshToken };
      } catch (error) {
        if (error instanceof oauth.ResponseBodyError && error.status < 500) {
          throw new SignInEnded('This sign-in has expired.', { cause: error });
        }
        throw error;
      }
    },

    /** Revokes the tokens as far as the issuer supports it (RFC 7009). */
    async revoke({ refreshToken, accessToken }: Tokens): Promise<void> {
      const server = await discover();
      if (server.revocation_endpoint === undefined) return;
      const answer = await oauth.revocationRequest(server, client, auth, refreshToken ?? accessToken, options());
      await oauth.processRevocationResponse(answer);
    },
  };
}

function validate(check: () => URLSearchParams): URLSearchParams {
  try {
    return check();
  } catch (error) {
    throw error instanceof oauth.AuthorizationResponseError ? new SignInRefused(error) : error;
  }
}

function tokensOf(granted: oauth.TokenEndpointResponse, account: string): Tokens {
  return {
    accessToken: granted.access_token,
    refreshToken: granted.refresh_token,
    account,
    expiresInS: granted.expires_in ?? defaultLifeS,
  };
}
