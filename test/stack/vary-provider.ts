import type { KoaContextWithOIDC, Provider } from 'oidc-provider';

/** What other providers do differently from the one in `identity-provider.ts`. */
export type ProviderVariations = {
  /** Whether a refresh token is given only to a request with `offline_access`, whatever its prompt. */
  refreshTokensForOffline?: boolean;
  /** A scope that makes the provider refuse the whole request, as Keycloak does with unknown ones. */
  unknownScope?: string;
  /** The host of the endpoints for tokens in the discovery document, if it is not that of the issuer. */
  endpointHost?: string;
};

/** Changes the provider's answers accordingly. `allowsRefreshToken` is for its configuration. */
export function varyProvider({ refreshTokensForOffline = false, unknownScope, endpointHost }: ProviderVariations) {
  const challengesForOffline = new Set<unknown>();

  const answerFor =
    (issuer: string) =>
    async (ctx: KoaContextWithOIDC, next: () => Promise<void>): Promise<void> => {
      const { scope = '', code_challenge: challenge, state, redirect_uri: back } = ctx.query as Record<string, string>;
      if (ctx.path === '/auth' && back !== undefined) {
        const scopes = scope.split(' ');
        if (scopes.includes('offline_access')) challengesForOffline.add(challenge);
        if (unknownScope !== undefined && scopes.includes(unknownScope)) {
          const refusal = { error: 'invalid_scope', error_description: `Invalid scopes: ${scope}`, state: state ?? '' };
          return ctx.redirect(`${back}?${new URLSearchParams({ ...refusal, iss: issuer })}`);
        }
      }
      await next();
      if (endpointHost !== undefined && ctx.path === '/.well-known/openid-configuration') {
        const document = ctx.body as Record<string, string>; // the provider's own
        for (const name of ['token_endpoint', 'revocation_endpoint']) {
          const url = new URL(document[name] ?? '');
          url.hostname = endpointHost;
          document[name] = url.href;
        }
      }
    };

  return {
    applyTo: (provider: Provider) => void provider.use(answerFor(provider.issuer) as Parameters<Provider['use']>[0]),
    allowsRefreshToken: (code: unknown) =>
      !refreshTokensForOffline || challengesForOffline.has((code as { codeChallenge?: string }).codeChallenge),
  };
}
