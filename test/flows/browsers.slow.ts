import test, { type ExecutionContext } from 'ava';
import { endpoints } from '../../shared/endpoints/endpoints.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { documentedFetch } from '../support/documented/documented-fetch.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';

const consoleOrigin = 'https://console.example:8443';
const anywhere = 'https://stranger.example';
/** Includes `null`, which pages without an origin send, and origins that resemble the console’s. */
const foreign = [
  anywhere,
  'null',
  'http://console.example:8443',
  'https://console.example',
  'https://console.example:8444',
  'https://console.example:8443.stranger.example',
  'https://a.console.example:8443',
  `${consoleOrigin}/`,
  `${consoleOrigin}, ${anywhere}`,
];

type Route = { method: string; path: string };
const open: Route[] = [
  ...endpoints.map(({ path }) => ({ method: 'POST', path })),
  { method: 'POST', path: '/openai/v1/chat/completions' },
  { method: 'GET', path: '/openai/v1/models' },
  { method: 'GET', path: '/v1/models' },
  { method: 'GET', path: '/v1/models/small-chat' },
  { method: 'POST', path: '/v1/keys/guest' },
  { method: 'GET', path: '/openapi.json' },
  { method: 'GET', path: '/plan-file.schema.json' },
];
const ofConsole: Route[] = [
  { method: 'GET', path: '/v1/keys/developer' },
  { method: 'POST', path: '/v1/keys/developer' },
  { method: 'POST', path: '/v1/keys/developer/rotate' },
  { method: 'POST', path: '/v1/keys/developer/revoke' },
  { method: 'POST', path: '/v1/files' },
  { method: 'GET', path: '/v1/files' },
  { method: 'GET', path: '/v1/files/file-1' },
  { method: 'GET', path: '/v1/files/file-1/content' },
  { method: 'DELETE', path: '/v1/files/file-1' },
  { method: 'POST', path: '/v1/batches' },
  { method: 'GET', path: '/v1/batches' },
  { method: 'GET', path: '/v1/batches/batch_1' },
  { method: 'POST', path: '/v1/batches/batch_1/cancel' },
  { method: 'GET', path: '/billing/quota' },
  { method: 'GET', path: '/billing/usage' },
  { method: 'GET', path: '/billing/plan' },
  { method: 'GET', path: '/admin/accounts' },
  { method: 'GET', path: '/admin/accounts/user%3Aalice' },
  { method: 'GET', path: '/admin/accounts/user%3Aalice/usage' },
  { method: 'GET', path: '/admin/usage' },
  { method: 'GET', path: '/admin/plans' },
  { method: 'GET', path: '/admin/settings' },
  { method: 'GET', path: '/admin/fleet' },
  { method: 'GET', path: '/admin/find' },
  { method: 'GET', path: '/admin/requests/req_1' },
  { method: 'GET', path: '/admin/batches/batch_1' },
  { method: 'GET', path: '/admin/accounts/user%3Aalice/batches' },
  { method: 'PATCH', path: '/admin/accounts/user%3Aalice' },
];
const routes = [...open, ...ofConsole];

/** Requests that pages send, with fetch and with the official SDK. */
const requestHeaders = [
  'authorization',
  'content-type',
  'idempotency-key',
  'x-client-request-id',
  'x-stainless-arch',
  'x-stainless-lang',
  'x-stainless-os',
  'x-stainless-package-version',
  'x-stainless-retry-count',
  'x-stainless-runtime',
  'x-stainless-runtime-version',
  'x-stainless-timeout',
];

const exposed = [
  'x-request-id',
  'request-id',
  'x-client-request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'link',
  'x-svc-queue-ms',
  'x-svc-estimated',
  'x-svc-dropped',
  'idempotent-replayed',
  'idempotency-kept',
  'x-svc-original-request-id',
  'x-svc-quota-limit',
  'x-svc-quota-used',
  'x-svc-quota-remaining',
  'x-svc-quota-reset',
  'x-svc-quota-overage',
  'x-ratelimit-limit-requests',
  'x-ratelimit-limit-tokens',
  'x-ratelimit-remaining-requests',
  'x-ratelimit-remaining-tokens',
  'x-ratelimit-reset-requests',
  'x-ratelimit-reset-tokens',
];

let stack: Stack;
let keys: KeyClient;
let key: string;
let guestKey: string;

test.before(async () => {
  stack = await startStack({ env: { CONSOLE_URL: `${consoleOrigin}/app?page=1#keys`, SHUTDOWN_GRACE_MS: '500' } });
  keys = createKeyClient(stack);
  key = await keys.newKey('alice');
  guestKey = String((await keys.guest('the-page-of-ann')).body.key);
});

test.after.always(() => stack?.[Symbol.asyncDispose]());

const listed = (headers: Headers, name: string) =>
  (headers.get(name) ?? '').split(',').flatMap((item) => (item.trim() === '' ? [] : [item.trim().toLowerCase()]));

/** Sends the preflight of a browser. */
async function preflight({ method, path }: Route, origin: string): Promise<Response> {
  return documentedFetch(`${stack.ingresses[0]?.url}${path}`, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': method,
      'access-control-request-headers': requestHeaders.join(', '),
    },
  });
}

/** A page at this origin can read the response and all of its relevant headers. */
function isReadable(t: ExecutionContext, headers: Headers, origin: string, about: string): void {
  t.is(headers.get('access-control-allow-origin'), origin, about);
  t.deepEqual(listed(headers, 'access-control-expose-headers').sort(), exposed.toSorted(), about);
  goesWithoutCookies(t, headers, about);
}

function isNotReadable(t: ExecutionContext, headers: Headers, about: string): void {
  t.is(headers.get('access-control-allow-origin'), null, about);
  goesWithoutCookies(t, headers, about);
}

/** No cache may give the response for one origin to a page at another. */
function goesWithoutCookies(t: ExecutionContext, headers: Headers, about: string): void {
  t.false(headers.has('access-control-allow-credentials'), about);
  t.false(headers.has('set-cookie'), about);
  t.true(listed(headers, 'vary').includes('origin'), about);
  t.truthy(headers.get('x-request-id'), about);
}

function isAllowed(t: ExecutionContext, { status, headers }: Response, route: Route, origin: string): void {
  const about = `${route.method} ${route.path}`;
  t.is(status, 204, about);
  t.is(headers.get('access-control-allow-origin'), origin, about);
  t.true(listed(headers, 'access-control-allow-methods').includes(route.method.toLowerCase()), about);
  t.deepEqual(listed(headers, 'access-control-allow-headers').sort(), requestHeaders.toSorted(), about);
  t.regex(headers.get('access-control-max-age') ?? '', /^\d+$/, about);
  goesWithoutCookies(t, headers, about);
}

test.serial(
  'inference, models, guest keys and the description of the API may be requested from any page',
  async (t) => {
    for (const route of open) {
      for (const origin of [...foreign, consoleOrigin]) isAllowed(t, await preflight(route, origin), route, '*');
    }
  },
);

test.serial('keys, files, batches, billing and admin may be requested from the console', async (t) => {
  for (const route of ofConsole) isAllowed(t, await preflight(route, consoleOrigin), route, consoleOrigin);
});

test.serial(
  'keys, files, batches, billing and admin may be requested from no other origin, however similar',
  async (t) => {
    for (const route of ofConsole) {
      for (const origin of foreign) {
        const about = `${route.method} ${route.path} from ${origin}`;
        const asked = await preflight(route, origin);
        t.is(asked.status, 204, about);
        isNotReadable(t, asked.headers, about);
        const answered = await keys.send(route.method, route.path, { headers: { origin } });
        t.is(answered.status, 401, about);
        isNotReadable(t, answered.headers, about);
      }
    }
  },
);

test.serial('an OPTIONS request that is not a preflight gets the methods of the path', async (t) => {
  for (const { method, path } of routes) {
    for (const headers of [{}, { origin: anywhere }, { 'access-control-request-method': 'POST' }]) {
      const response = await documentedFetch(`${stack.ingresses[0]?.url}${path}`, { method: 'OPTIONS', headers });
      t.is(response.status, 204, path);
      if (!('access-control-request-method' in headers)) {
        t.true(listed(response.headers, 'allow').includes(method.toLowerCase()), path);
        t.true(listed(response.headers, 'allow').includes('options'), path);
      }
      t.is(await response.text(), '', path);
      t.true(listed(response.headers, 'vary').includes('origin'), path);
    }
  }
});

test.serial('pages that may request a route can read its responses and headers', async (t) => {
  const bearer = await keys.token('alice');
  const operator = await keys.token('operator', true);
  const chat = { model: 'small-chat', messages: [{ role: 'user', content: 'Hi' }] };
  const fromAnywhere = { origin: anywhere };
  const fromConsole = { origin: consoleOrigin };
  const answers = [
    ['*', await keys.send('POST', '/v1/chat/completions', { bearer: key, body: chat, headers: fromAnywhere })],
    ['*', await keys.send('GET', '/v1/models', { bearer: key, headers: fromAnywhere })],
    ['*', await keys.send('GET', '/v1/models/small-chat', { bearer: key, headers: fromConsole })],
    ['*', await keys.send('POST', '/v1/keys/guest', { body: { device_id: 'the-page-of-ann' }, headers: fromAnywhere })],
    [consoleOrigin, await keys.send('GET', '/v1/keys/developer', { bearer, headers: fromConsole })],
    [consoleOrigin, await keys.send('POST', '/v1/keys/developer', { bearer, body: {}, headers: fromConsole })],
    [consoleOrigin, await keys.send('GET', '/admin/accounts/user%3Aalice', { bearer: operator, headers: fromConsole })],
  ] as const;
  for (const [origin, { status, headers }] of answers) {
    t.is(status, 200);
    isReadable(t, headers, origin, String(status));
  }
});

test.serial('a stream can be read like any response', async (t) => {
  const response = await documentedFetch(`${stack.ingresses[0]?.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { origin: anywhere, 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'small-chat', stream: true, messages: [{ role: 'user', content: 'Hi' }] }),
  });
  t.is(response.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  isReadable(t, response.headers, '*', 'stream');
  t.true((await response.text()).endsWith('data: [DONE]\n\n'));
});

test.serial('every refusal can be read: otherwise a page would see neither reason nor wait', async (t) => {
  const bearer = await keys.token('alice');
  const headers = { origin: anywhere };
  const chat = (body: unknown, more = {}) =>
    keys.send('POST', '/v1/chat/completions', { bearer: key, body, headers: { ...headers, ...more } });
  const refused = [
    [400, '*', await chat('not JSON')],
    [400, '*', await chat({}, { 'x-client-request-id': 'a b' })],
    [401, '*', await keys.send('POST', '/v1/chat/completions', { body: {}, headers })],
    [401, '*', await keys.send('GET', '/v1/models', { bearer: 'svc_nonsense', headers })],
    [404, '*', await keys.send('GET', '/v1/models/nothing', { bearer: key, headers })],
    [405, '*', await keys.send('DELETE', '/v1/models', { bearer: key, headers })],
    [405, '*', await keys.send('GET', '/v1/keys/guest', { headers })],
    [413, '*', await chat('x'.repeat(17_000_000))],
    [415, '*', await chat('x', { 'content-type': 'text/plain' })],
    [400, '*', await keys.send('POST', '/v1/keys/guest', { body: { device_id: '' }, headers })],
    [401, consoleOrigin, await keys.send('GET', '/v1/keys/developer', { headers: { origin: consoleOrigin } })],
    [403, consoleOrigin, await keys.send('GET', '/admin/accounts/a', { bearer, headers: { origin: consoleOrigin } })],
    [401, consoleOrigin, await keys.send('GET', '/billing/quota', { headers: { origin: consoleOrigin } })],
    [404, consoleOrigin, await keys.send('GET', '/nothing', { headers: { origin: consoleOrigin } })],
  ] as const;
  for (const [expected, origin, { status, headers, body }] of refused) {
    t.is(status, expected, JSON.stringify(body));
    isReadable(t, headers, origin, `${status} ${JSON.stringify(body)}`);
  }
  const nowhere = await keys.send('GET', '/nothing', { headers });
  t.is(nowhere.status, 404);
  isNotReadable(t, nowhere.headers, 'an unknown path');
});

test.serial('a limit can be read with its wait', async (t) => {
  const body = { model: 'medium-chat', messages: [{ role: 'user', content: 'Hi' }] };
  const headers = { origin: anywhere };
  const planLimit = await keys.send('POST', '/v1/chat/completions', { bearer: guestKey, body, headers });
  t.is(planLimit.status, 429);
  t.is(planLimit.headers.get('x-should-retry'), 'false');
  isReadable(t, planLimit.headers, '*', 'plan_limit');

  let limited = await keys.send('GET', '/v1/models', { bearer: key, headers });
  for (let device = 0; limited.status === 200; device++) limited = await keys.guest(`the-page-of-${device}`, headers);
  t.is(limited.status, 429);
  for (const name of ['retry-after', 'retry-after-ms', 'x-should-retry']) t.truthy(limited.headers.get(name), name);
  isReadable(t, limited.headers, '*', 'requests_limit');
});

test.serial('a path matches by its exact spelling, for routes and for origins', async (t) => {
  const headers = { origin: anywhere };
  const asked = await keys.send('GET', '/v1/models?limit=1', { bearer: key, headers });
  t.is(asked.status, 200);
  isReadable(t, asked.headers, '*', 'a query changes nothing');
  const others = ['/v1/models/', '/V1/Models', '//v1/models', '/v1/%6Dodels', '/v1/keys/guest/', '/v1/keys/guest/x'];
  for (const path of [...others, '/v1/keys/developer/', '/V1/KEYS/DEVELOPER', '/v1/models/../keys/developer']) {
    const answered = await keys.send('GET', path, { bearer: key, headers });
    t.not(answered.status, 200, path);
    isNotReadable(t, answered.headers, path);
    isNotReadable(t, (await preflight({ method: 'GET', path }, anywhere)).headers, path);
  }
});

test.serial('while Redis is unavailable the 503 can be read, and preflights are answered', async (t) => {
  await stack.redis?.kill('SIGKILL');
  t.teardown(() => stack.redis?.restart()); // without Redis the stack would stop slowly
  const { status, headers } = await keys.send('GET', '/v1/models', { bearer: key, headers: { origin: anywhere } });
  t.is(status, 503);
  t.truthy(headers.get('retry-after'));
  isReadable(t, headers, '*', '503');
  for (const route of routes) t.is((await preflight(route, consoleOrigin)).status, 204);
});
