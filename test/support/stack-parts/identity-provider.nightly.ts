import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'ava';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { requestToken, startIdentityProvider } from '../../stack/identity-provider.ts';

const audience = 'http://127.0.0.1:8080';
const redirectUri = `${audience}/console`;

async function verify(token: string, issuer: string, expected = audience) {
  const configuration = await fetch(`${issuer}/.well-known/openid-configuration`);
  const { jwks_uri: keysUrl } = (await configuration.json()) as { jwks_uri: string };
  const keys = createRemoteJWKSet(new URL(keysUrl));
  return jwtVerify(token, keys, { issuer, audience: expected, algorithms: ['ES256'], typ: 'at+jwt' });
}

test('issues a token that the published keys verify, for the requested account', async (t) => {
  await using provider = await startIdentityProvider({ audience });
  const { payload, protectedHeader } = await verify(await provider.token('alice'), provider.issuer);
  t.like(payload, { iss: provider.issuer, aud: audience, sub: 'alice' });
  t.is(payload.scope, undefined);
  t.like(protectedHeader, { alg: 'ES256', typ: 'at+jwt' });
  t.true((payload.exp ?? 0) > Date.now() / 1_000 + 3_600);

  const nowSeconds = () => Math.floor(Date.now() / 1_000);
  const before = nowSeconds();
  const lasting = await verify(await provider.token('bob', { admin: true, expiresIn: 60 }), provider.issuer);
  t.like(lasting.payload, { sub: 'bob', scope: 'svc:admin' });
  const { exp = 0 } = lasting.payload; // not compared with `iat`, which can be a second later than the start of its life
  t.true(exp >= before + 60 && exp <= nowSeconds() + 60, `${exp} is 60 s after its issue`);
});

test('issues tokens that must be refused: for another audience, and expired', async (t) => {
  await using provider = await startIdentityProvider({ audience });
  const elsewhere = await provider.token('alice', { audience: 'https://elsewhere.example' });
  await t.throwsAsync(verify(elsewhere, provider.issuer), { code: 'ERR_JWT_CLAIM_VALIDATION_FAILED', message: /aud/ });
  await t.notThrowsAsync(verify(elsewhere, provider.issuer, 'https://elsewhere.example'));
  const expired = await provider.token('alice', { expiresIn: -60 });
  await t.throwsAsync(verify(expired, provider.issuer), { code: 'ERR_JWT_EXPIRED' });
});

test('issues no token for a wrong secret', async (t) => {
  await using provider = await startIdentityProvider({ audience });
  const request = { issuer: provider.issuer, account: 'alice' };
  await t.throwsAsync(requestToken({ ...request, clientSecret: 'a guess' }), { message: /401.*invalid_client/ });
  const { clientSecret } = provider;
  await t.throwsAsync(requestToken({ ...request, clientSecret, account: '' }), { message: /400.*invalid_request/s });
  await t.notThrowsAsync(requestToken({ ...request, clientSecret }));
});

test('keeps its key and secret in its own file, so that a token outlives a restart', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'identity-provider-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const first = await startIdentityProvider({ audience, dataDirectory: directory });
  const token = await first.token('alice');
  await first[Symbol.asyncDispose]();
  await using second = await startIdentityProvider({ audience, dataDirectory: directory, port: first.port });
  t.is((await verify(token, second.issuer)).payload.sub, 'alice');
  t.is(second.clientSecret, first.clientSecret);
  const files = await readdir(directory);
  t.deepEqual(files, ['identity-secrets.json']);
  t.is((await stat(join(directory, 'identity-secrets.json'))).mode & 0o777, 0o600);

  await using other = await startIdentityProvider({ audience });
  await t.throwsAsync(verify(token, other.issuer));
});

test('signs a person in for the console, with PKCE only, and renews the token', async (t) => {
  await using provider = await startIdentityProvider({ audience });
  const browser = createBrowser();
  const verifier = randomBytes(32).toString('base64url');
  const query = new URLSearchParams({
    client_id: 'console',
    response_type: 'code',
    redirect_uri: redirectUri,
    scope: 'openid offline_access svc:admin',
    prompt: 'consent',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  });
  const returned = await browser.signIn(`${provider.issuer}/auth?${query}`, 'olga');
  const code = returned.searchParams.get('code') ?? '';

  const exchange = { grant_type: 'authorization_code', code, redirect_uri: redirectUri };
  t.is(
    (await exchangeFor(provider.issuer, { ...exchange, code_verifier: randomBytes(32).toString('base64url') })).status,
    400,
  );
  const again = await browser.signIn(`${provider.issuer}/auth?${query}`, 'olga');
  const reply = await exchangeFor(provider.issuer, {
    ...exchange,
    code: again.searchParams.get('code') ?? '',
    code_verifier: verifier,
  });
  t.is(reply.status, 200);
  t.is(reply.headers.get('access-control-allow-origin'), audience);
  const tokens = (await reply.json()) as { access_token: string; refresh_token: string };
  t.like((await verify(tokens.access_token, provider.issuer)).payload, { sub: 'olga', scope: 'svc:admin' });

  const renewal = await exchangeFor(provider.issuer, {
    grant_type: 'refresh_token',
    refresh_token: tokens.refresh_token,
  });
  const renewed = (await renewal.json()) as { access_token: string };
  t.is((await verify(renewed.access_token, provider.issuer)).payload.sub, 'olga');
});

test('signs no person in without PKCE, or for an unknown API', async (t) => {
  await using provider = await startIdentityProvider({ audience });
  const request = { client_id: 'console', response_type: 'code', redirect_uri: redirectUri, scope: 'openid' };
  const withoutPkce = await follow(`${provider.issuer}/auth?${new URLSearchParams(request)}`);
  t.is(withoutPkce.searchParams.get('error'), 'invalid_request');
  const pkce = { code_challenge: 'x'.repeat(43), code_challenge_method: 'S256' };
  const unknown = new URLSearchParams({ ...request, ...pkce, resource: 'https://elsewhere.example' });
  t.is((await follow(`${provider.issuer}/auth?${unknown}`)).searchParams.get('error'), 'invalid_target');
});

async function follow(url: string): Promise<URL> {
  const response = await fetch(url, { redirect: 'manual' });
  return new URL(response.headers.get('location') ?? '', url);
}

function exchangeFor(issuer: string, form: Record<string, string>): Promise<Response> {
  const body = new URLSearchParams({ client_id: 'console', ...form });
  return fetch(`${issuer}/token`, { method: 'POST', body, headers: { origin: audience } });
}

/** The parts of a browser that signing in needs: cookies, redirects, and one form after the other. */
function createBrowser() {
  const cookies = new Map<string, string>();
  const visit = async (url: URL, form?: URLSearchParams): Promise<Response> => {
    const cookie = Array.from(cookies, ([name, value]) => `${name}=${value}`).join('; ');
    const sent = form === undefined ? {} : { method: 'POST', body: form };
    const response = await fetch(url, { ...sent, headers: { cookie }, redirect: 'manual' });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
    return response;
  };
  return {
    async signIn(start: string, account: string): Promise<URL> {
      let url = new URL(start);
      let form: URLSearchParams | undefined;
      for (let step = 0; step < 12 && !url.href.startsWith(redirectUri); step += 1) {
        const response = await visit(url, form);
        const page = await response.text();
        form = undefined;
        const location = response.headers.get('location');
        if (location !== null) {
          url = new URL(location, url);
          continue;
        }
        const action = /<form[^>]*action="([^"]+)"/.exec(page)?.[1] ?? '';
        url = new URL(action, url);
        form = new URLSearchParams({ login: account });
      }
      return url;
    },
  };
}
