import { setTimeout as sleep } from 'node:timers/promises';
import Anthropic from '@anthropic-ai/sdk';
import test, { type ExecutionContext } from 'ava';
import OpenAI, { APIError } from 'openai';
import type { Redis } from '../../shared/redis/connections.ts';
import { claimKey, countersKey } from '../../shared/redis/keys.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chat } from '../support/chat.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { openRedis } from '../support/open-redis.ts';
import { contentsOf } from '../support/redis-contents.ts';

const tiers = { model_tiers: ['guest', 'standard'] };
const plans = {
  'one-token': { tokens_per_month: 1, ...tiers },
  'one-a-minute': { requests_per_minute: 1, ...tiers },
  'many-at-once': tiers,
  'guest-device': { requests_per_day: 50, priority: 100, model_tiers: ['guest'] },
};
const models = {
  'messages-chat': { tier: 'guest', pool: 'default', endpoints: ['chat', 'messages'] },
  'small-embed': { tier: 'guest', pool: 'default', endpoints: ['embeddings'] },
};

let stack: Stack;
let key: string;
let keys: KeyClient;
let redis: Redis;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ ingresses: 2, workers: 2, plans, models }));
  keys = createKeyClient(stack);
  key = await keys.newKey('alice');
  redis = parts.adopt(openRedis(stack.redisUrl), (opened) => opened.disconnect());
});

test.after.always(() => parts.disposeAsync());

let names = 0;
type Wishes = {
  key?: string;
  ingress?: number;
  question?: string;
  signal?: AbortSignal;
  stream?: boolean;
  headers?: object;
};

function send(idempotencyKey: string, { ingress = 0, question = 'Who am I?', headers = {}, ...rest }: Wishes = {}) {
  const url = stack.ingresses[ingress]?.url ?? '';
  return chat({ url, question, headers: { 'idempotency-key': idempotencyKey, ...headers }, key, ...rest });
}

/** Holds the calls of all model servers until they are healed, at the latest at the end of the test. */
function hold(t: ExecutionContext): { heal: () => void; held: () => Promise<unknown> } {
  const heal = () => {
    for (const server of stack.modelServers) server.heal();
  };
  for (const server of stack.modelServers) server.fail({ untilHealed: true });
  t.teardown(heal);
  const isRunning = ({ state }: { state: string }) => state === 'running';
  return { heal, held: () => Promise.any(stack.modelServers.map((server) => server.waitForCall(isRunning))) };
}

const calls = () => stack.modelServers.flatMap((server) => server.calls()).length;
async function used(): Promise<unknown> {
  const response = await fetch(`${stack.ingresses[0]?.url}/billing/quota`, {
    headers: { authorization: `Bearer ${key}` },
  });
  return response.json();
}

/** Sends until the answer is not 409, as an SDK does. */
async function retried(idempotencyKey: string, wishes: Wishes = {}): Promise<Response> {
  for (;;) {
    const response = await send(idempotencyKey, wishes);
    if (response.status !== 409) return response;
    await response.text();
    await sleep(50);
  }
}

test.serial('a repeat gets the first answer byte for byte at any ingress, and is charged once', async (t) => {
  const name = `order ${names++}`.replace(' ', '-');
  const first = await send(name);
  t.is(first.status, 200);
  t.is(first.headers.get('idempotent-replayed'), null);
  const bytes = Buffer.from(await first.arrayBuffer());
  const [called, charged] = [calls(), await used()];
  for (const ingress of [0, 1]) {
    const repeat = await send(name, { ingress });
    t.is(repeat.status, 200);
    t.deepEqual(Buffer.from(await repeat.arrayBuffer()), bytes);
    t.is(repeat.headers.get('idempotent-replayed'), 'true');
    t.is(repeat.headers.get('content-type'), first.headers.get('content-type'));
    t.is(repeat.headers.get('x-svc-original-request-id'), first.headers.get('x-request-id'));
    t.not(repeat.headers.get('x-request-id'), first.headers.get('x-request-id'));
  }
  t.is(calls(), called);
  t.deepEqual(await used(), charged);
});

test.serial('a repeat while the first runs is 409 with a short wait, and another body is 422', async (t) => {
  const { heal, held } = hold(t);
  const name = `order-${names++}`;
  const first = send(name);
  await held();
  const repeat = await send(name, { ingress: 1 });
  t.is(repeat.status, 409);
  t.like(await repeat.json(), { code: 'CONFLICT' });
  t.is(repeat.headers.get('retry-after'), '1');
  t.is(repeat.headers.get('x-should-retry'), 'true');
  const other = await send(name, { question: 'Another?' });
  t.is(other.status, 422);
  t.like(await other.json(), { code: 'IDEMPOTENCY_MISMATCH' });
  heal();
  const text = await (await first).text();
  t.is(await (await retried(name)).text(), text);
  t.is((await send(name, { question: 'Another?' })).status, 422);
});

test.serial('fifty repeats at once over two ingresses make one call, and all get its answer', async (t) => {
  const name = `order-${names++}`;
  const before = calls();
  const texts = await Promise.all(
    Array.from({ length: 50 }, async (_, index) => (await retried(name, { ingress: index % 2 })).text()),
  );
  t.is(calls(), before + 1);
  t.is(new Set(texts).size, 1);
});

test.serial('a client that leaves does not end its request: the next attempt gets the answer', async (t) => {
  const { heal, held } = hold(t);
  const name = `order-${names++}`;
  const before = calls();
  const leaving = new AbortController();
  const first = send(name, { signal: leaving.signal, headers: { 'x-client-request-id': name } });
  await held();
  leaving.abort();
  await t.throwsAsync(first);
  await stack.ingresses[0]?.process.line(({ clientRequestId }) => clientRequestId === name);
  await sleep(500); // a cancellation would have arrived
  const states = stack.modelServers.flatMap((server) => server.calls()).map(({ state }) => state);
  t.is(states.filter((state) => state === 'running').length, 1, 'its call still runs');
  heal();
  const answer = await retried(name, { ingress: 1 });
  t.is(answer.status, 200);
  t.is(answer.headers.get('idempotent-replayed'), 'true');
  t.is(calls(), before + 1);
});

test.serial('a failure that charged nothing is not kept: the next attempt runs', async (t) => {
  const name = `order-${names++}`;
  for (const server of stack.modelServers) server.fail({ status: 500 });
  t.is((await send(name, { headers: { 'x-stainless-retry-count': '0' } })).status, 503);
  for (const server of stack.modelServers) server.heal();
  t.is((await retried(name, { question: 'Something else?' })).status, 200);
});

test.serial('the header is refused in another form', async (t) => {
  for (const name of ['with space', 'ü', 'x'.repeat(256)]) {
    const response = await send(name);
    t.is(response.status, 400, name);
    t.like(await response.json(), { code: 'VALIDATION_ERROR' });
  }
  t.is((await send('x'.repeat(255))).status, 200);
});

test.serial('a stream runs once, and its answer is not kept', async (t) => {
  const { heal, held } = hold(t);
  const name = `order-${names++}`;
  const before = calls();
  const first = send(name, { stream: true });
  await held();
  const early = await send(name, { stream: true, ingress: 1 });
  t.is(early.status, 409);
  t.like(await early.json(), { code: 'CONFLICT' });
  t.is(early.headers.get('x-should-retry'), 'true');
  heal();
  const answer = await first;
  t.is(answer.headers.get('idempotency-kept'), 'false');
  t.true((await answer.text()).endsWith('data: [DONE]\n\n'));
  const after = await retriedUntil(({ code }) => code !== 'CONFLICT', name, key, true);
  t.like(after, { code: 'IDEMPOTENCY_RESULT_LOST' });
  t.is((await send(name)).status, 422, 'the same request without a stream is another one');
  t.is(calls(), before + 1);
});

test.serial('an answer that is longer than what a device has reserved is delivered, and not kept', async (t) => {
  const guest = String((await keys.guest('device-with-long-answers')).body.key);
  const embed = (name: string, dimensions: number) =>
    keys.send('POST', '/v1/embeddings', {
      bearer: guest,
      body: { model: 'small-embed', input: 'Hi', dimensions, encoding_format: 'base64' },
      headers: { 'idempotency-key': name },
    });
  const [short, long] = [`order-${names++}`, `order-${names++}`];
  const kept = await embed(short, 10_000);
  t.deepEqual([kept.status, kept.headers.get('idempotency-kept')], [200, null]);
  const answer = await embed(long, 20_000);
  t.deepEqual([answer.status, answer.headers.get('idempotency-kept')], [200, 'false']);
  t.true(JSON.stringify(answer.body).length > 65_536);
  const repeat = await embed(short, 10_000);
  t.is(repeat.headers.get('idempotent-replayed'), 'true');
  t.deepEqual(repeat.body, kept.body);
  t.like(await embed(long, 20_000), { status: 409, body: { code: 'IDEMPOTENCY_RESULT_LOST' } });
});

test.serial('seventeen requests with a key at once are one too many for an account', async (t) => {
  const many = await keys.newKey('many');
  await keys.change('user:many', { plan: 'many-at-once' });
  const { heal } = hold(t);
  const running = Array.from({ length: 16 }, () => send(`order-${names++}`, { key: many }));
  while (Number(await redis.hget(countersKey('user:many'), 'keeping')) < 16_777_216);
  const refused = await send(`order-${names++}`, { key: many });
  t.is(refused.status, 429);
  t.like(await refused.json(), {
    error: { code: 'rate_limit_exceeded', type: 'idempotency_limit', retry_after_ms: 1_000 },
  });
  t.is(refused.headers.get('retry-after-ms'), '1000');
  t.is(refused.headers.get('x-should-retry'), null);
  t.true(refused.headers.get('link')?.includes('/errors#idempotency_limit'));
  heal();
  for (const answer of await Promise.all(running)) t.is(answer.status, 200);
  t.is((await retried(`order-${names++}`, { key: many })).status, 200);
});

test.serial('from the eleventh repeat on, each counts as a request', async (t) => {
  const repeater = await keys.newKey('repeater');
  const name = `order-${names++}`;
  const text = await (await send(name, { key: repeater })).text();
  const counted = async () => {
    const { body } = await keys.send('GET', '/billing/limits', { bearer: repeater });
    return (body.requestsPerMinute as { used: number }).used; // an answer of the service itself
  };
  for (let repeat = 1; repeat <= 10; repeat++) t.is(await (await send(name, { key: repeater })).text(), text);
  t.is(await counted(), 1);
  for (let repeat = 11; repeat <= 13; repeat++) {
    const answer = await send(name, { key: repeater });
    t.is(answer.headers.get('idempotent-replayed'), 'true');
    t.is(await answer.text(), text);
  }
  t.is(await counted(), 4);
  await keys.change('user:repeater', { plan: 'one-a-minute' });
  const refused = await send(name, { key: repeater });
  t.is(refused.status, 429);
  t.like(await refused.json(), { error: { type: 'requests_limit' } });
});

test.serial(
  'the OpenAI SDK repeats the header in its automatic retries, and gets the answer of its first attempt',
  async (t) => {
    const client = new OpenAI({ apiKey: key, baseURL: `${stack.ingresses[1]?.url}/openai/v1`, maxRetries: 30 });
    const asked = { model: 'small-chat', messages: [{ role: 'user' as const, content: 'Again?' }] };
    for (const server of stack.modelServers) server.fail({ latencyMs: 700, times: 1 });
    const [before, headers] = [calls(), { 'idempotency-key': `order-${names++}` }];
    const [one, other] = await Promise.all([1, 2].map(() => client.chat.completions.create(asked, { headers })));
    for (const server of stack.modelServers) server.heal();
    t.deepEqual(one, other);
    t.is(calls(), before + 1);
    const mismatch = await t.throwsAsync(client.chat.completions.create({ ...asked, n: 2 }, { headers }), {
      instanceOf: APIError,
    });
    t.like(mismatch, { status: 422, code: 'IDEMPOTENCY_MISMATCH' });
    const streamed = client.chat.completions.create({ ...asked, stream: true }, { headers });
    t.like(await t.throwsAsync(streamed, { instanceOf: APIError }), { status: 422, code: 'IDEMPOTENCY_MISMATCH' });
  },
);

test.serial('an answer in the form of another endpoint is repeated, too, with its count of tokens', async (t) => {
  const client = new Anthropic({ apiKey: key, baseURL: stack.ingresses[0]?.url ?? '', maxRetries: 2 });
  const headers = { 'idempotency-key': `order-${names++}` };
  const count = () =>
    client.messages
      .countTokens({ model: 'messages-chat', messages: [{ role: 'user', content: 'Hi' }] }, { headers })
      .withResponse();
  const [first, again] = [await count(), await count()];
  t.deepEqual(again.data, first.data);
  t.is(again.response.headers.get('idempotent-replayed'), 'true');
  t.is(again.response.headers.get('x-svc-estimated'), first.response.headers.get('x-svc-estimated'));
  t.is((await send(headers['idempotency-key'])).status, 422, 'the same key at another path');
});

test.serial('a repeat has no header of an estimate that the first answer does not have', async (t) => {
  for (const server of stack.modelServers) server.fail({ noUsage: true });
  const name = `order-${names++}`;
  const first = await send(name);
  for (const server of stack.modelServers) server.heal();
  t.is(first.status, 200);
  const repeat = await send(name);
  t.is(repeat.headers.get('idempotent-replayed'), 'true');
  for (const response of [first, repeat]) t.is(response.headers.get('x-svc-estimated'), null);
  t.is(await repeat.text(), await first.text());
});

test.serial('Redis holds no word of a question or an answer while the answer is kept', async (t) => {
  const [name, question] = [`order-${names++}-zanzibar`, 'Where is Ouagadougou?'];
  t.true((await (await send(name, { question })).text()).includes('Ouagadougou'));
  // Replies are trimmed soon after they were read.
  let contents = await contentsOf(redis);
  while (contents.includes('svc:reply-frames') && /Ouagadougou/.test(contents)) contents = await contentsOf(redis);
  t.is((await redis.hgetBuffer(claimKey('user:alice', name), 'answer'))?.includes('Ouagadougou'), false);
  for (const word of ['Ouagadougou', 'You said', 'zanzibar']) t.false(contents.includes(word), word);
  t.true(contents.includes(claimKey('user:alice', name)), 'it is still kept');
  t.is((await send(name, { question })).headers.get('idempotent-replayed'), 'true');
});

test.serial(
  'a suspension ends a request with a key, also without its client, and repeats are 403 until it is lifted',
  async (t) => {
    const suspended = await keys.newKey('suspended');
    const name = `order-${names++}`;
    const { heal, held } = hold(t);
    const leaving = new AbortController();
    const before = calls();
    const first = send(name, { key: suspended, signal: leaving.signal });
    await held();
    leaving.abort();
    await t.throwsAsync(first);
    await keys.change('user:suspended', { suspended: true });
    await Promise.any(stack.modelServers.map((server) => server.waitForCall(({ state }) => state === 'aborted')));
    heal();
    const refused = await send(name, { key: suspended, ingress: 1 });
    t.is(refused.status, 403);
    t.like(await refused.json(), { code: 'FORBIDDEN' });
    await keys.change('user:suspended', { suspended: false });
    const after = await retriedUntil(({ code }) => code !== 'CONFLICT', name, suspended);
    t.like(after, { code: 'IDEMPOTENCY_RESULT_LOST' }, 'its prompt was charged');
    t.is(calls(), before + 1);
  },
);

async function retriedUntil(
  isOver: (body: { code?: string }) => boolean,
  name: string,
  bearer: string,
  stream = false,
): Promise<object> {
  for (;;) {
    const body = (await (await send(name, { key: bearer, stream })).json()) as { code?: string }; // a response of the service itself
    if (isOver(body)) return body;
    await sleep(50);
  }
}

test.serial('a revoked key gets 401 for a repeat, and the new key of the account gets the answer', async (t) => {
  const old = await keys.newKey('rotator');
  const name = `order-${names++}`;
  const text = await (await send(name, { key: old })).text();
  const rotated = String((await keys.rotate('rotator', old)).body.key);
  t.is((await send(name, { key: old })).status, 401);
  const repeat = await send(name, { key: rotated, ingress: 1 });
  t.is(await repeat.text(), text);
  t.is(repeat.headers.get('idempotent-replayed'), 'true');
});

test.serial('a repeat gets its answer although a limit is reached, and the next request is refused', async (t) => {
  const spent = await keys.newKey('spent');
  const name = `order-${names++}`;
  const text = await (await send(name, { key: spent })).text();
  await keys.change('user:spent', { plan: 'one-token' });
  t.is(await (await send(name, { key: spent })).text(), text);
  t.is((await send(`order-${names++}`, { key: spent })).status, 402);
});

test.serial('leaving a stream with a key cancels it, and what was received is charged', async (t) => {
  const name = `order-${names++}`;
  for (const server of stack.modelServers) server.fail({ stallAfterChunks: 2 });
  t.teardown(() => {
    for (const server of stack.modelServers) server.heal();
  });
  const aborted = () =>
    stack.modelServers.flatMap((server) => server.calls()).filter(({ state }) => state === 'aborted').length;
  const before = aborted();
  const leaving = new AbortController();
  const answer = await send(name, { stream: true, signal: leaving.signal });
  await answer.body?.getReader().read();
  leaving.abort();
  const after = await retriedUntil(({ code }) => code !== 'CONFLICT', name, key, true);
  t.like(after, { code: 'IDEMPOTENCY_RESULT_LOST' });
  t.is(aborted(), before + 1);
});
