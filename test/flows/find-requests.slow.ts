import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import type { z } from 'zod';
import { requestListSchema, requestSchema } from '../../ingress/routes/present-request.ts';
import { outboxMarksKey, partitionLockKey, partitionOf } from '../../shared/redis/keys.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { chat } from '../support/chat.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { openRedis } from '../support/open-redis.ts';

type Shown = z.infer<typeof requestSchema>;

/** On one backend, so that a test knows which one it calls, and in a pool without workers. */
const models = {
  'broken-server': { tier: 'guest', pool: 'default', backends: ['onprem-a'] },
  'held-server': { tier: 'guest', pool: 'default', backends: ['onprem-a'] },
  'slow-server': { tier: 'guest', pool: 'default', backends: ['onprem-a'] },
  'two-servers': { tier: 'guest', pool: 'default', backends: ['onprem-a', 'cloud'] },
  'no-worker': { tier: 'guest', pool: 'unserved', backends: ['onprem-a'] },
};
const plans = { 'one-at-once': { requests_at_once: 1, model_tiers: ['guest'] } };

/** Nothing of this account gets into the store: a test holds the lock of its partition. */
const undrained = 'undrained';
let stack: Stack;
let keys: KeyClient;
const parts = new AsyncDisposableStack();
const redis = () => openRedis(stack.redisUrl);

test.before(async () => {
  stack = parts.use(await startStack({ ingresses: 2, workers: 0, models, plans, env: { POOLS: 'default' } }));
  await using held = { redis: redis(), [Symbol.asyncDispose]: async () => void (await held.redis.quit()) };
  await held.redis.set(partitionLockKey(partitionOf(`user:${undrained}`)), 'a test', 'PX', 3_600_000);
  await stack.startWorker();
  keys = createKeyClient(stack);
});

test.after.always(() => parts.disposeAsync());

const ingress = (index: number) => createKeyClient(stack, { url: () => stack.ingresses[index]?.url ?? '' });

/** What both ingresses show, which must be the same. */
async function look(t: ExecutionContext, bearer: string, id: string): Promise<Shown | number> {
  const [one, other] = await Promise.all(
    [0, 1].map((index) => ingress(index).send('GET', `/v1/requests/${encodeURIComponent(id)}`, { bearer })),
  );
  t.is(one?.status, other?.status);
  if (one?.status !== 200) return one?.status ?? 0;
  t.deepEqual(one.body, other?.body);
  return requestSchema.parse(one.body);
}

/** What both show once the request has ended for one of them. The documentation says a second; a busy machine has more. */
async function lookOnceEnded(t: ExecutionContext, bearer: string, id: string): Promise<Shown | number> {
  const begunAt = performance.now();
  for (;;) {
    const { body } = await ingress(1).send('GET', `/v1/requests/${encodeURIComponent(id)}`, { bearer });
    if (body.state === 'ended' || performance.now() - begunAt > 30_000) return look(t, bearer, id);
    await sleep(20);
  }
}

async function list(bearer: string, query = ''): Promise<z.infer<typeof requestListSchema>> {
  const { status, body } = await keys.send('GET', `/v1/requests${query}`, { bearer });
  if (status !== 200) throw new Error(`${status}: ${JSON.stringify(body)}`);
  return requestListSchema.parse(body);
}

/** The account's only request, once it is in this state. */
async function until(bearer: string, state: Shown['state']): Promise<Shown> {
  for (;;) {
    const [found] = (await list(bearer)).data;
    if (found?.state === state) return found;
    await sleep(20);
  }
}

const url = () => stack.ingresses[0]?.url ?? '';

test('a stream is found while it runs and soon after its end by both ids, before it is in the store', async (t) => {
  const key = await keys.newKey(undrained);
  stack.modelServers[0].fail({ latencyMs: 300, chunkMs: 60 }, 'slow-server');
  const asking = chat({ url: url(), key, question: 'Who am I?', model: 'slow-server', stream: true });
  const running = await until(key, 'running');
  t.like(running, { model: 'slow-server', outcome: null, usage: null, charged_tokens: null, attempts: [] });
  const response = await asking;
  const id = response.headers.get('x-request-id') ?? '';
  t.is(running.id, id);
  const streaming = await until(key, 'streaming');
  t.deepEqual(await look(t, key, id), streaming);
  const text = await response.text();
  const answerId = /"id":"([^"]+)"/.exec(text)?.[1] ?? '';
  const ended = await lookOnceEnded(t, key, answerId);
  if (typeof ended === 'number') return t.fail(`${ended}`);
  t.deepEqual(await look(t, key, id), ended);
  t.like(ended, { id, answer_id: answerId, state: 'ended', outcome: 'completed', endpoint: '/v1/chat/completions' });
  t.like(ended.attempts, [{ location: 'on-prem', outcome: 'answered' }]);
  t.is(ended.created_at, streaming.created_at);
  t.true((ended.first_token_ms ?? 0) >= 300 && (ended.duration_ms ?? 0) >= (ended.first_token_ms ?? 0));

  const whole = await chat({ url: url(), key, question: 'Who am I?', model: 'small-chat' });
  const { id: wholeId, usage } = (await whole.json()) as { id: string; usage: Shown['usage'] }; // an answer of the service itself
  t.like(await lookOnceEnded(t, key, wholeId), {
    ...{ id: whole.headers.get('x-request-id'), answer_id: wholeId, outcome: 'completed' },
    charged_tokens: usage?.total_tokens,
    usage: { prompt_tokens: usage?.prompt_tokens, completion_tokens: usage?.completion_tokens, estimated: false },
  });
  const { data } = await list(key);
  t.deepEqual(
    data.map(({ answer_id }) => answer_id),
    [wholeId, answerId],
  );

  const connection = redis();
  const partition = partitionOf(`user:${undrained}`);
  t.is(await connection.hget(outboxMarksKey(partition), 'drained'), null, 'nothing of it is in the store');
  await connection.del(partitionLockKey(partition));
  while ((await connection.hget(outboxMarksKey(partition), 'drained')) === null) await sleep(50);
  await connection.quit();
  t.deepEqual(await look(t, key, answerId), ended, 'the same from the store');
  t.deepEqual((await list(key)).data, data);
});

test('a request that waits is queued; after its client has left there is none', async (t) => {
  const key = await keys.newKey('queued');
  const leaving = new AbortController();
  const asking = chat({ url: url(), key, question: 'Wait', model: 'no-worker', signal: leaving.signal });
  const queued = await until(key, 'queued');
  t.like(await look(t, key, queued.id), { id: queued.id, state: 'queued', model: 'no-worker' });
  t.like(await look(t, key, `chatcmpl-${queued.id}`), { id: queued.id });
  leaving.abort();
  await t.throwsAsync(asking);
  while ((await list(key)).data.length > 0) await sleep(20);
  t.is(await look(t, key, queued.id), 404);
});

test('the calls of model servers are attempts, with their locations and without their names', async (t) => {
  const key = await keys.newKey('failover');
  stack.modelServers[0].fail({ status: 500 }, 'two-servers');
  const response = await chat({ url: url(), key, question: 'Who am I?', model: 'two-servers' });
  t.is(response.status, 200);
  await response.text();
  const found = await lookOnceEnded(t, key, response.headers.get('x-request-id') ?? '');
  if (typeof found === 'number') return t.fail(`${found}`);
  t.like(found.attempts, [
    { location: 'on-prem', outcome: 'failed' },
    { location: 'cloud', outcome: 'answered' },
  ]);
  t.false(/onprem|upstream-model|http/.test(JSON.stringify(found)));

  stack.modelServers[0].fail({ status: 500 }, 'broken-server');
  const failed = await chat({ url: url(), key, question: 'Who am I?', model: 'broken-server' });
  t.is(failed.status, 503);
  const failedId = failed.headers.get('x-request-id') ?? '';
  t.like(await lookOnceEnded(t, key, failedId), {
    state: 'ended',
    outcome: 'failed',
    answer_id: null,
    charged_tokens: 0,
  });
  t.deepEqual(
    (await list(key, '?outcome=failed')).data.map(({ id }) => id),
    [failedId],
  );
  t.deepEqual(
    (await list(key, '?model=two-servers')).data.map(({ id }) => id),
    [found.id],
  );
});

test('a line of a batch is found by the ids in its result', async (t) => {
  const user = await openBatchClient(stack, 'lines');
  const { id } = await user.create(linesOf(3));
  const batch = await user.until(id, ({ status }) => status === 'completed');
  const lines = await user.output(batch);
  t.is(lines.length, 3);
  for (const { response } of lines) {
    const requestId = response?.request_id ?? '';
    const found = await lookOnceEnded(t, user.apiKey, requestId);
    t.like(found, { id: requestId, state: 'ended', outcome: 'completed', answer_id: response?.body.id });
    t.deepEqual(await look(t, user.apiKey, response?.body.id ?? ''), found);
  }
  t.deepEqual(
    (await list(user.apiKey)).data.map((request) => request.id).toSorted(),
    lines.map(({ response }) => response?.request_id ?? '').toSorted(),
  );
});

test('a caller finds only its own requests, by key and by sign-in token, and none that was refused', async (t) => {
  const key = await keys.newKey('own');
  await keys.change('user:own', { plan: 'one-at-once' });
  const other = await keys.newKey('other');
  const guest = String((await keys.guest('device-of-look-up')).body.key);
  const first = await chat({ url: url(), key, question: 'Who am I?' });
  const { id: answerId } = (await first.json()) as { id: string }; // an answer of the service itself
  const id = first.headers.get('x-request-id') ?? '';
  for (const one of [id, answerId]) {
    t.like(await lookOnceEnded(t, key, one), { id });
    t.like(await look(t, await keys.token('own'), one), { id });
    for (const bearer of [other, guest, await keys.token('olga', true)]) t.is(await look(t, bearer, one), 404);
  }
  const missing = await keys.send('GET', '/openai/v1/requests/x', { bearer: key });
  t.like(missing, { status: 404, body: { error: { code: 'NOT_FOUND', message: 'There is no such request.' } } });
  t.like(await keys.send('GET', `/openai/v1/requests/${answerId}`, { bearer: key }), { status: 200, body: { id } });

  stack.modelServers[0].fail({ untilHealed: true }, 'held-server');
  const holding = chat({ url: url(), key, question: 'Hold', model: 'held-server' });
  await until(key, 'running');
  const refused = await chat({ url: url(), key, question: 'Too many' });
  t.is(refused.status, 429);
  t.is(await look(t, key, refused.headers.get('x-request-id') ?? ''), 404);
  stack.modelServers[0].heal('held-server');
  await (await holding).text();
  t.is((await list(key)).data.length, 2);
  t.deepEqual((await list(other)).data, []);

  const asked = await chat({ url: url(), key: guest, question: 'Who am I?' });
  await asked.text();
  t.like(await lookOnceEnded(t, guest, asked.headers.get('x-request-id') ?? ''), { state: 'ended' });
});

test('a list continues after the last id of a page, while requests are added', async (t) => {
  const key = await keys.newKey('pages');
  await keys.change('user:pages', { plan: 'pro' });
  const ids: string[] = [];
  const ask = async () => {
    const response = await chat({ url: url(), key, question: 'Who am I?' });
    await response.text();
    ids.unshift(response.headers.get('x-request-id') ?? '');
  };
  for (let index = 0; index < 7; index++) await ask();
  const wanted = [...ids];
  const seen: string[] = [];
  for (let after = ''; ; ) {
    const page = await list(key, `?limit=3${after}`);
    t.is(page.first_id, page.data[0]?.id ?? null);
    t.is(page.last_id, page.data.at(-1)?.id ?? null);
    seen.push(...page.data.map(({ id }) => id));
    if (!page.has_more) break;
    after = `&after=${page.last_id}`;
    await ask();
  }
  t.deepEqual(seen, wanted);
  const [shown] = (await list(key, '?limit=1')).data;
  const keyId = shown?.key_id ?? '';
  t.is((await list(key, `?key_id=${keyId}&limit=100`)).data.length, ids.length);
  t.deepEqual((await list(key, '?key_id=another')).data, []);
});
