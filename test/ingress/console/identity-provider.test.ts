import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import test, { type ExecutionContext } from 'ava';
import { createIdentityProvider, type Tokens } from '../../../ingress/console/session/identity-provider.ts';

/** An issuer that answers each refresh token with `granted`. The provider in `test/stack` always grants every field. */
async function startIssuer(t: ExecutionContext, granted: Record<string, unknown>, resource = '') {
  const received: URLSearchParams[] = [];
  let issuer = '';
  const server = createServer(async (request, response) => {
    const isToken = request.url === '/token';
    if (isToken) received.push(new URLSearchParams(await text(request)));
    response.setHeader('content-type', 'application/json');
    const answer = isToken
      ? { token_type: 'Bearer', ...granted }
      : { issuer, token_endpoint: `${issuer}/token`, authorization_endpoint: `${issuer}/auth?tenant=1` };
    response.end(JSON.stringify(answer));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // a TCP server's address
  const settings = { issuer, consoleClientId: 'console', consoleScopes: 'openid a', consoleResource: resource };
  const product = { name: 'Inference service' };
  const urls = { baseUrl: 'https://api.example', consoleUrl: 'https://api.example/console', docsUrl: '' };
  return { ...createIdentityProvider({ ...settings, ...urls, product }), received };
}

const tokens: Tokens = {
  accessToken: 'access 0',
  refreshToken: 'refresh 0',
  account: 'alice',
  expiresInS: 60,
};

test('a renewal without a refresh token keeps the one from before', async (t) => {
  const { renew, received } = await startIssuer(t, { access_token: 'access 1', expires_in: 90 });
  const renewed = await renew(tokens);
  t.deepEqual(renewed, { ...tokens, accessToken: 'access 1', expiresInS: 90 });
  await renew(renewed);
  t.deepEqual(
    received.map((parameters) => parameters.get('refresh_token')),
    ['refresh 0', 'refresh 0'],
  );
});

test('a renewal with a refresh token replaces the one from before', async (t) => {
  const granted = { access_token: 'access 1', refresh_token: 'refresh 1', expires_in: 90 };
  const { renew } = await startIssuer(t, granted);
  t.deepEqual(await renew(tokens), {
    ...{ accessToken: 'access 1', refreshToken: 'refresh 1', account: 'alice' },
    expiresInS: 90,
  });
});

test('revoking does not fail if the issuer has no revocation endpoint', async (t) => {
  const { revoke } = await startIssuer(t, {});
  await t.notThrowsAsync(revoke(tokens));
});

test('the API is named to the issuer by CONSOLE_RESOURCE, as resource and as audience, unless it is empty', async (t) => {
  const named = await startIssuer(t, {}, 'api://inference');
  const { url } = await named.begin({ scope: named.scope, silently: true, hash: '' });
  const { tenant, scope, prompt, resource, audience } = Object.fromEntries(url.searchParams);
  t.deepEqual(
    { tenant, scope, prompt, resource, audience },
    { tenant: '1', scope: 'openid a', prompt: 'none', resource: 'api://inference', audience: 'api://inference' },
  );
  const unnamed = await startIssuer(t, {});
  const { searchParams } = (await unnamed.begin({ scope: 'openid', silently: false, hash: '' })).url;
  t.deepEqual(
    ['resource', 'audience', 'prompt'].filter((name) => searchParams.has(name)),
    [],
  );
});
