import type { ExecutionContext } from 'ava';
import test from 'ava';
import { makeKey } from '../../ingress/authentication/api-key.ts';
import { readPages } from '../../ingress/documentation/page-list.ts';
import { makeTopUpCode } from '../../ingress/routes/top-up-codes.ts';
import { errorCodes } from '../../shared/errors.ts';
import { countersKey, keptAnswersKey, settingsWritesKey } from '../../shared/redis/keys.ts';
import type { Stack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { misfits } from '../support/documentation/fits-example.ts';
import { examplesOf } from '../support/documentation/page-examples.ts';
import { asRead } from '../support/documentation/pages-of-stack.ts';
import { createFurtherKeyClient } from '../support/further-key-client.ts';
import { type Answer, createKeyClient, type KeyClient } from '../support/key-client.ts';
import { openRedis } from '../support/open-redis.ts';
import { exchange } from '../support/raw-http.ts';
import { head } from '../support/refusal.ts';
import { openSharedStack } from '../support/shared-stack.ts';
import { soonEnded } from '../support/soon-ended.ts';
import { createTopUpClient } from '../support/top-up-client.ts';

const tiers = { model_tiers: ['guest', 'standard'] };
const plans = {
  'one-a-minute': { requests_per_minute: 1, ...tiers },
  'hundred-tokens': { tokens_per_minute: 100, ...tiers },
  'one-a-day': { requests_per_day: 1, ...tiers },
  'one-at-once': { requests_at_once: 1, ...tiers },
  'no-batches': { batch_tokens_waiting: 1, ...tiers },
  'one-token': { tokens_per_month: 1, ...tiers },
};
const body = { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 50 };

const shared = openSharedStack(test, { isAtBaseUrl: true, plans });
let stack: Stack;
let keys: KeyClient;
let key: string;
let errorsPage: string;

test.before(async () => {
  stack = await shared.started();
  keys = createKeyClient(stack);
  key = await keys.newKey('linker');
  errorsPage = await (await fetch(`${stack.baseUrl}/docs/errors`)).text();
});

const chat = (bearer: string, more: object = {}) =>
  keys.send('POST', '/v1/chat/completions', { bearer, body: { ...body, ...more } });

/** The last response of this number of equal requests from a new account on this plan. */
async function last(plan: keyof typeof plans, requests: number): Promise<Answer> {
  const own = await keys.newKey(`on-${plan}`);
  await keys.change(`user:on-${plan}`, { plan });
  for (let request = 1; request < requests; request++) await chat(own);
  return chat(own);
}

/** How to get each code and each limit type from a healthy stack, by anchor. */
const ways: Record<string, () => Promise<Answer>> = {
  NO_AUTH: () => keys.send('GET', '/v1/models'),
  INVALID_KEY: () => keys.models(makeKey()),
  KEY_EXPIRED: askUntilExpired,
  INVALID_TOKEN: () => keys.models('not-a-token'),
  FORBIDDEN: async () => keys.send('GET', '/admin/plans', { bearer: await keys.token('linker') }),
  VALIDATION_ERROR: () => keys.send('POST', '/v1/chat/completions', { bearer: key, body: { model: 'small-chat' } }),
  NOT_FOUND: () => keys.send('GET', '/nothing'),
  METHOD_NOT_ALLOWED: () => keys.send('DELETE', '/v1/models'),
  UPGRADE_REQUIRED: askForWebSocket,
  CONFLICT: cancelFinished,
  IDEMPOTENCY_MISMATCH: askOtherwise,
  PAYLOAD_TOO_LARGE: () => chat(key, { user: 'x'.repeat(17_000_000) }),
  UNSUPPORTED_MEDIA_TYPE: () =>
    keys.send('POST', '/v1/chat/completions', { bearer: key, body: 'x', headers: { 'content-type': 'text/plain' } }),
  HEADERS_TOO_LARGE: () => keys.send('GET', '/v1/models', { headers: { 'x-large': 'x'.repeat(20_000) } }),
  requests_limit: () => last('one-a-minute', 2),
  tokens_limit: () => last('hundred-tokens', 3),
  daily_limit: () => last('one-a-day', 3), // one more than needed, because a day may begin in between
  plan_limit: () => chat(key, { model: 'large-chat' }),
  batch_limit: createTooLarge,
  quota_limit: () => last('one-token', 2),
  code_failures: guessCodes,
  settings_limit: writeTooOften,
  idempotency_limit: keepTooMuch,
  key_requests_limit: () => lastOfKey({ requests_per_minute: 1 }, 2),
  key_tokens_limit: () => lastOfKey({ tokens_per_minute: 100 }, 4),
  key_quota_limit: () => lastOfKey({ tokens_per_month: 1 }, 2),
};

async function askUntilExpired(): Promise<Answer> {
  const account = createFurtherKeyClient(keys, 'linker');
  const { made } = await soonEnded((expires_at) => account.create({ expires_at }));
  for (;;) {
    const answer = await keys.models(made.key);
    if (answer.status !== 200) return answer;
  }
}

/** The last response of this number of equal requests with a new key that has these limits. */
async function lastOfKey(limits: object, requests: number): Promise<Answer> {
  const { key: limited } = await createFurtherKeyClient(keys, 'linker').create({ limits });
  for (let request = 1; request < requests; request++) await chat(limited);
  return chat(limited);
}

async function writeTooOften(): Promise<Answer> {
  const redis = openRedis(stack.redisUrl);
  await redis.set(settingsWritesKey('user:eager'), 1e9, 'PX', 60_000);
  redis.disconnect();
  return keys.mint('eager');
}

async function keepTooMuch(): Promise<Answer> {
  const own = await keys.newKey('keeper');
  await chat(own);
  const redis = openRedis(stack.redisUrl);
  await redis.zadd(keptAnswersKey('user:keeper'), Date.now() + 60_000, 'req_1 16777216');
  await redis.hset(countersKey('user:keeper'), 'kept', 16_777_216);
  redis.disconnect();
  return keys.send('POST', '/v1/chat/completions', { bearer: own, body, headers: { 'idempotency-key': 'one-more' } });
}

async function guessCodes(): Promise<Answer> {
  const client = createTopUpClient(keys);
  for (;;) {
    const answer = await client.redeem('guesser', makeTopUpCode());
    if (answer.status !== 404) return answer;
  }
}

async function askForWebSocket(): Promise<Answer> {
  const send = head('GET /v1/responses HTTP/1.1', 'Connection: Upgrade', 'Upgrade: websocket');
  const answer = await exchange({ port: Number(new URL(stack.baseUrl).port), send });
  return { ...answer, headers: new Headers(answer.headers), body: JSON.parse(answer.body) };
}

async function cancelFinished(): Promise<Answer> {
  const client = await openBatchClient(stack, 'linker', key);
  const { id } = await client.ended((await client.create(linesOf(1))).id);
  return keys.send('POST', `/v1/batches/${id}/cancel`, { bearer: key });
}

async function askOtherwise(): Promise<Answer> {
  const headers = { 'idempotency-key': 'order-17' };
  await keys.send('POST', '/v1/chat/completions', { bearer: key, body, headers });
  return keys.send('POST', '/v1/chat/completions', { bearer: key, body: { ...body, max_tokens: 51 }, headers });
}

async function createTooLarge(): Promise<Answer> {
  const own = await keys.newKey('on-no-batches');
  await keys.change('user:on-no-batches', { plan: 'no-batches' });
  const input_file_id = await (await openBatchClient(stack, 'on-no-batches', own)).upload(linesOf(1));
  const batch = { input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' };
  return keys.send('POST', '/v1/batches', { bearer: own, body: batch });
}

function assertExplained(t: ExecutionContext, { status, headers, body }: Answer, anchor: string): void {
  const error = body.error as { code?: string; type?: string; docs?: string }; // an object if it is nested
  const code = String(body.code ?? error.code);
  const about = `${anchor}: ${status} ${JSON.stringify(body).slice(0, 500)}`;
  t.is(error.type ?? code, anchor, about);
  const [, link = ''] = /^<(.*)>; rel="help"$/.exec(headers.get('link') ?? '') ?? [];
  t.is(link, `${stack.baseUrl}/docs/errors#${anchor}`, about);
  t.true(errorsPage.includes(`id="${anchor}"`), about);
  if (error.docs === undefined) return;
  t.is(error.docs, `${stack.baseUrl}/docs/errors#${code}`, about);
  t.true(errorsPage.includes(`id="${code}"`), about);
}

for (const [anchor, provoke] of Object.entries(ways)) {
  test.serial(`a response with ${anchor} links to its documentation, which shows the same body`, async (t) => {
    const answer = await provoke();
    assertExplained(t, answer, anchor);
    for (const shown of shownBodies(anchor))
      t.deepEqual(misfits(anyNumbers(shown), anyNumbers(answer.body)), [], anchor);
  });
}

test.serial('the same holds for responses while all model servers fail, or while one does not answer', async (t) => {
  const busyKey = await keys.newKey('busy');
  await keys.change('user:busy', { plan: 'one-at-once' });
  for (const server of stack.modelServers) server.fail({ hang: true });
  const leaving = new AbortController();
  const first = fetch(`${stack.baseUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${busyKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: leaving.signal,
  });
  first.catch(() => {});
  await Promise.any(stack.modelServers.map((server) => server.waitForCall(({ state }) => state === 'running')));
  assertExplained(t, await chat(busyKey), 'concurrency_limit');
  leaving.abort();
  for (const server of stack.modelServers) server.fail({ status: 500 });
  assertExplained(t, await chat(key), 'UPSTREAMS_EXHAUSTED');
  for (const server of stack.modelServers) server.heal();
});

/** The examples of this code or type on the page of errors. */
function shownBodies(anchor: string): unknown[] {
  const text = readPages().find(({ name }) => name === 'errors')?.markdown ?? '';
  const codes: Record<string, string> = { requests_limit: 'rate_limit_exceeded', quota_limit: 'quota_exceeded' };
  return examplesOf(asRead(text, stack))
    .filter((example) => example.role === 'error' && example.about === (codes[anchor] ?? anchor))
    .map(({ text }) => JSON.parse(text));
}

/** Replaces limits, waits and dates, which vary. */
function anyNumbers(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replace(/\d+/g, '0'));
}

test('every code is tested here or needs a fault that a healthy service does not have', (t) => {
  const nested = ['rate_limit_exceeded', 'quota_exceeded'];
  const elsewhere = [
    'REQUEST_TIMEOUT',
    'IDEMPOTENCY_RESULT_LOST',
    'INTERNAL_ERROR',
    'SERVICE_UNAVAILABLE',
    'DEADLINE_EXCEEDED',
    'UPSTREAM_INTERRUPTED',
  ];
  const provoked = [...Object.keys(ways), 'UPSTREAMS_EXHAUSTED'].filter((anchor) => anchor in errorCodes);
  t.deepEqual([...provoked, ...nested, ...elsewhere].sort(), Object.keys(errorCodes).sort());
  for (const code of elsewhere) t.true(errorsPage.includes(`id="${code}"`), code);
});
