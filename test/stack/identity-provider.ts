import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type Configuration, errors, interactionPolicy, type KoaContextWithOIDC, Provider } from 'oidc-provider';
import { z } from 'zod';
import { untilListening } from '../../shared/process/start-error.ts';
import { freePort, portAdvice } from './free-port.ts';
import { loadIdentitySecrets } from './identity-secrets.ts';
import {
  answerSignIn,
  interactionUrl,
  logoutSource,
  postLogoutSuccessSource,
  renderError,
  signInPagesPolicy,
} from './sign-in-pages.ts';
import { type ProviderVariations, varyProvider } from './vary-provider.ts';

/** The client that requests tokens on the command line and in tests, and the grant type that only it may use. */
const localClientId = 'local-tokens';
const localGrantType = 'urn:local:account';

const adminScope = 'svc:admin';
/** Who is an operator after a sign-in on the pages. `requestToken` can issue an operator's token for any account. */
const operators = new Set(['olga']);
const consoleTokenSeconds = 3_600;
const localTokenSeconds = 43_200;
const sessionSeconds = 14 * 86_400;

export interface IdentityProviderOptions extends ProviderVariations {
  /** The audience of the access tokens: the API's `BASE_URL`. */
  audience: string;
  /** Default: a free port, which stays the same after a restart. */
  port?: number | undefined;
  host?: string;
  /** The address for clients, if it is not the one listened on. */
  issuer?: string;
  /** Where the signing key and the local client's secret are kept, so that tokens outlive a restart. */
  dataDirectory?: string;
  /** Default: `<audience>/console`, with and without a trailing slash. */
  consoleRedirectUris?: readonly string[];
}

export type IdentityProvider = Awaited<ReturnType<typeof startIdentityProvider>>;

/**
 * A real OpenID provider for one machine: JWT access tokens (ES256, `at+jwt`) for one API, a public client `console` that signs in with
 * PKCE on pages that accept any name, and tokens for any account by `requestToken`. Resolves when it listens. Sessions and refresh tokens
 * are kept in memory only.
 */
export async function startIdentityProvider(options: IdentityProviderOptions) {
  const { audience, host = '127.0.0.1', port = await freePort() } = options;
  const { signingKey, cookieKey, clientSecret } = await loadIdentitySecrets(options.dataDirectory);
  const server = createServer();
  server.listen({ host, port });
  await untilListening(server, { name: 'identity provider', host, port, advice: portAdvice });
  const issuer = options.issuer ?? `http://${host}:${port}`;

  const redirectUris = options.consoleRedirectUris ?? [`${audience}/console`, `${audience}/console/`];
  const variations = varyProvider(options);
  const configuration = configurationFor({ audience, redirectUris, clientSecret, variations });
  let published = [signingKey];
  let answer = answerWith(published);
  let hangs = false;

  /** It signs with the first of these keys, and publishes all of them. */
  function answerWith(keys: typeof published) {
    const secrets = { jwks: { keys }, cookies: { keys: [cookieKey] } };
    const provider = withoutWarnings(() => new Provider(issuer, { ...configuration, ...secrets }));
    registerLocalGrant(provider, audience);
    variations.applyTo(provider);
    const callback = provider.callback();
    return async (req: IncomingMessage, res: ServerResponse) => {
      if (!(await answerSignIn(provider, req, res))) await callback(req, res);
    };
  }

  server.on('request', (req, res) => {
    if (hangs) return;
    res.setHeader('content-security-policy', signInPagesPolicy);
    void answer(req, res);
  });

  return {
    issuer,
    /** The origins that a browser may meet during a sign-in. */
    origins: [issuer, ...(options.endpointHost === undefined ? [] : [`http://${options.endpointHost}:${port}`])],
    port,
    /** For `requestToken` in another process. */
    clientSecret,
    /** A sign-in token for this account, as the token endpoint issues it. A negative `expiresIn` makes an expired one. */
    token: (account: string, wishes: TokenWishes = {}) => requestToken({ issuer, clientSecret, account, ...wishes }),
    /** Signs with a new key until the provider ends. The previous keys stay published unless `withdraw` is set. */
    async rotateKey({ withdraw = false } = {}): Promise<void> {
      const { signingKey: fresh } = await loadIdentitySecrets();
      published = withdraw ? [fresh] : [fresh, ...published];
      answer = answerWith(published);
    },
    /** Accepts connections and requests, but answers none until `heal`. Requests sent in between are never answered. */
    hang(): void {
      hangs = true;
    },
    heal(): void {
      hangs = false;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

interface TokenWishes {
  /** With the scope `svc:admin`. */
  admin?: boolean;
  /** In seconds. */
  expiresIn?: number;
  /** Another audience than the API. */
  audience?: string;
}

const tokenReply = z.object({ access_token: z.string() });

/** Requests a sign-in token for any account from a running `startIdentityProvider`, with the secret of its local client. */
export async function requestToken(
  request: { issuer: string; clientSecret: string; account: string } & TokenWishes,
): Promise<string> {
  const form = new URLSearchParams({
    grant_type: localGrantType,
    client_id: localClientId,
    client_secret: request.clientSecret,
    account: request.account,
  });
  if (request.admin) form.set('scope', adminScope);
  if (request.expiresIn !== undefined) form.set('expires_in', String(request.expiresIn));
  if (request.audience !== undefined) form.set('resource', request.audience);
  const response = await fetch(`${request.issuer}/token`, {
    method: 'POST',
    body: form,
    signal: AbortSignal.timeout(30_000),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`The identity provider at ${request.issuer} answered ${response.status}: ${text}`);
  return tokenReply.parse(JSON.parse(text)).access_token;
}

function registerLocalGrant(provider: Provider, audience: string): void {
  const parameters = z.object({
    account: z.string().min(1).max(255),
    scope: z.literal(adminScope).optional(),
    resource: z.url().default(audience),
    expires_in: z.coerce.number().int().default(localTokenSeconds),
  });
  provider.registerGrantType(
    localGrantType,
    async (ctx) => {
      const parsed = parameters.safeParse(ctx.oidc.params);
      if (!parsed.success) throw new errors.InvalidRequest(z.prettifyError(parsed.error));
      const { account, scope, resource, expires_in: expiresIn } = parsed.data;
      const token = new provider.AccessToken({
        client: ctx.oidc.client,
        accountId: account,
        resourceServer: new provider.ResourceServer(resource, resourceServerFor(resource, true)),
        scope,
        grantId: localGrantType,
        gty: localGrantType,
        // Set directly, because a lifetime must be positive there and callers can request an expired token.
        exp: Math.floor(Date.now() / 1_000) + expiresIn,
      });
      ctx.body = { access_token: await token.save(), token_type: token.tokenType, expires_in: expiresIn, scope };
    },
    Object.keys(parameters.shape),
  );
}

function configurationFor(parts: {
  audience: string;
  redirectUris: readonly string[];
  clientSecret: string;
  variations: ReturnType<typeof varyProvider>;
}) {
  const { audience, redirectUris, clientSecret, variations } = parts;
  const origins = new Set(redirectUris.map((uri) => new URL(uri).origin));
  return {
    clients: [consoleClient(redirectUris), localClient(clientSecret)],
    scopes: ['openid', 'offline_access'],
    pkce: { required: () => true },
    interactions: { url: interactionUrl, policy: promptsForBrowsers() },
    renderError,
    loadExistingGrant: (ctx) => grantAll(ctx, audience),
    findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    // Also for `prompt=none`, where no one was asked for consent, as other providers do.
    issueRefreshToken: (_ctx, client, code) =>
      client.grantTypeAllowed('refresh_token') && variations.allowsRefreshToken(code),
    clientBasedCORS: (_ctx, origin) => origins.has(origin),
    // The service reads access tokens only, and the console requests nothing else.
    features: {
      devInteractions: { enabled: false },
      rpInitiatedLogout: { enabled: true, logoutSource, postLogoutSuccessSource },
      revocation: { enabled: true, allowedPolicy: (_ctx, client, token) => token.clientId === client.clientId },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        useGrantedResource: () => true,
        getResourceServerInfo: (ctx, resource) => {
          if (resource !== audience) throw new errors.InvalidTarget();
          // The account may not be known yet. The check of the token decides.
          const account = ctx.oidc.account?.accountId;
          return resourceServerFor(resource, account === undefined || operators.has(account));
        },
      },
    },
    ttl: {
      AccessToken: consoleTokenSeconds,
      IdToken: consoleTokenSeconds,
      AuthorizationCode: 60,
      Interaction: 3_600,
      Grant: sessionSeconds,
      RefreshToken: sessionSeconds,
      Session: sessionSeconds,
    },
  } satisfies Configuration;
}

/** The console counts as a native client because of its plain http address, but it is a page and needs no consent prompt. */
function promptsForBrowsers() {
  const prompts = interactionPolicy.base();
  prompts.get('consent')?.checks.remove('native_client_prompt');
  return prompts;
}

/** Grants the console everything that the signed-in account may do. */
async function grantAll(ctx: KoaContextWithOIDC, audience: string) {
  const { client, session, provider } = ctx.oidc;
  const accountId = session?.accountId;
  const clientId = client?.clientId;
  if (accountId === undefined || clientId === undefined) return undefined;
  const grantId = session?.grantIdFor(clientId);
  const known = grantId === undefined ? undefined : await provider.Grant.find(grantId);
  const grant = known ?? new provider.Grant({ accountId, clientId });
  grant.addOIDCScope('openid offline_access');
  if (operators.has(accountId)) grant.addResourceScope(audience, adminScope);
  else grant.rejectResourceScope(audience, adminScope); // otherwise it would be requested again and again
  await grant.save();
  return grant;
}

function resourceServerFor(audience: string, isOperator: boolean) {
  return {
    audience,
    scope: isOperator ? adminScope : '',
    accessTokenFormat: 'jwt',
    accessTokenTTL: consoleTokenSeconds,
    jwt: { sign: { alg: 'ES256' } },
  } as const;
}

function consoleClient(redirectUris: readonly string[]) {
  return {
    client_id: 'console',
    // Native applications may return to a plain http address of this machine; web applications need https.
    application_type: redirectUris.every((uri) => uri.startsWith('https:')) ? 'web' : 'native',
    token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    redirect_uris: [...redirectUris],
    post_logout_redirect_uris: [...redirectUris],
    id_token_signed_response_alg: 'ES256',
  } as const;
}

function localClient(secret: string) {
  return {
    client_id: localClientId,
    client_secret: secret,
    token_endpoint_auth_method: 'client_secret_post',
    grant_types: [localGrantType],
    response_types: [],
    redirect_uris: [],
    id_token_signed_response_alg: 'ES256',
  } as const;
}

/** Hides warnings about properties that this provider has on purpose: in-memory storage and development pages. */
function withoutWarnings<T>(make: () => T): T {
  const { warn } = console;
  console.warn = (...words: unknown[]) => {
    if (!String(words[0]).includes('a quick start development-only')) warn(...words);
  };
  try {
    return make();
  } finally {
    console.warn = warn;
  }
}
