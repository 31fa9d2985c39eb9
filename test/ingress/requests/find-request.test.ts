import test from 'ava';
import { ulid } from 'ulid';
import { presentRequest, requestSchema } from '../../../ingress/routes/present-request.ts';
import { leaseEndsKey, outboxKey, partitionOf } from '../../../shared/redis/keys.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { usageRecord } from '../../shared/store/usage-records.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { openRequests } from '../../support/requests-side.ts';

let own: RedisDatabase;
let store: Store;
const parts = new AsyncDisposableStack();

test.before(async () => {
  own = parts.use(await openRedisDatabase());
  const home = parts.use(await createSqliteHome());
  store = parts.use(await home.open());
});

test.after.always(() => parts.disposeAsync());

const backends = {
  'gpu-1': { url: 'http://gpu-1.internal/v1', location: 'on-prem' },
  rented: { url: 'https://api.example.com/v1', location: 'cloud' },
} as const;

const nextId = () => `req_${ulid()}`;
const unknownYet = {
  ...{ answer_id: null, outcome: null, queue_ms: null, first_token_ms: null, duration_ms: null, usage: null },
  ...{ charged_tokens: null, attempts: [], status: null, code: null, batch_id: null },
};

async function freshAccount() {
  const side = openRequests(own.redis, { account: `user:${ulid()}`, store });
  await side.prepare(new Date().toISOString().slice(0, 7));
  return {
    ...side,
    /** What the route shows, checked by the documented schema. */
    async look(id: string, account = side.account) {
      const found = await side.find(account, id);
      return found && requestSchema.parse(presentRequest(found, backends));
    },
  };
}

for (const lane of ['interactive', 'batch'] as const) {
  test(`a request of the lane ${lane} is queued, runs and streams, and has only what is known then`, async (t) => {
    const side = await freshAccount();
    const id = nextId() + (lane === 'batch' ? '-1' : '');
    const report = { model: 'large-chat', endpoint: '/v1/responses', keyId: 'key_7' };
    const admittedAt = await side.admit(id, { lane, report });
    const expected = {
      ...unknownYet,
      ...{ id, object: 'request' as const, endpoint: '/v1/responses', model: 'large-chat', key_id: 'key_7' },
      created_at: Math.floor(admittedAt / 1000),
    };
    t.deepEqual(await side.look(id), { ...expected, state: 'queued' });
    await side.start(id, lane);
    t.deepEqual(await side.look(id), { ...expected, state: 'running' });
    if (lane === 'batch') return;
    await side.stream(id);
    t.deepEqual(await side.look(id), { ...expected, state: 'streaming' });
  });
}

test('an ended request has all of its record, and locations instead of backends', async (t) => {
  const side = await freshAccount();
  const id = nextId();
  const admittedAt = await side.admit(id);
  await side.start(id);
  const attempts = [
    { run: 1, backend: 'gpu-1', outcome: 'failed', cause: 'connection refused', address: '10.0.0.1', durationMs: 12 },
    { run: 1, backend: 'gone', outcome: 'failed', durationMs: 5 },
    { run: 1, backend: 'constructor', outcome: 'failed', durationMs: 6 },
    { run: 1, backend: 'rented', model: 'their-name', outcome: 'answered', durationMs: 1_200 },
  ];
  const counts = { promptTokens: 9, completionTokens: 12, tokens: 21, counted: 'estimated' as const };
  await side.settle(id, { ...counts, queueWaitMs: 3, firstTokenMs: 400, durationMs: 1_300, attempts, answerId: 'x-1' });
  const expected = {
    ...{ id, answer_id: 'x-1', object: 'request' as const, endpoint: '/v1/chat/completions', model: 'small-chat' },
    ...{ state: 'ended' as const, outcome: 'completed' as const, created_at: Math.floor(admittedAt / 1000) },
    ...{ queue_ms: 3, first_token_ms: 400, duration_ms: 1_300 },
    attempts: [
      { location: 'on-prem' as const, outcome: 'failed', cause: 'connection refused', ms: 12 },
      { location: null, outcome: 'failed', cause: null, ms: 5 },
      { location: null, outcome: 'failed', cause: null, ms: 6 },
      { location: 'cloud' as const, outcome: 'answered', cause: null, ms: 1_200 },
    ],
    usage: { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21, estimated: true },
    ...{ charged_tokens: 21, key_id: 'key_01', status: null, code: null, batch_id: null },
  };
  for (const move of [async () => {}, side.drain, side.trim]) {
    await move();
    t.deepEqual(await side.look(id), expected);
    t.deepEqual(await side.look('x-1'), expected);
  }
});

test('what a model server has counted is not estimated, and without a key there is no id of one', async (t) => {
  const side = await freshAccount();
  const id = nextId();
  await side.admit(id, { report: { keyId: '' } });
  await side.start(id);
  t.like(await side.look(id), { key_id: null, usage: null });
  await side.settle(id, { keyId: '', promptTokens: 9, completionTokens: 12, tokens: 21, counted: 'reported' });
  t.like(await side.look(id), { key_id: null, usage: { total_tokens: 21, estimated: false } });
});

test('a lost request is found, and a run whose worker died is an attempt without a location', async (t) => {
  const side = await freshAccount();
  const id = nextId();
  await side.admit(id);
  await side.start(id);
  await own.redis.zadd(leaseEndsKey(side.account), 1, id);
  await side.expire();
  t.like(await side.look(id), {
    ...{ state: 'ended', outcome: 'lost', charged_tokens: 0 },
    attempts: [{ location: null, outcome: 'lost', ms: null }],
    usage: { total_tokens: 0, estimated: true },
  });
});

test('a released request, one of another account and an unknown one are not there', async (t) => {
  const [side, other] = [await freshAccount(), await freshAccount()];
  const [released, running, ended] = [nextId(), nextId(), nextId()];
  await side.admit(released);
  t.like(await side.look(released), { state: 'queued' });
  for (const id of [running, ended]) await side.admit(id);
  await side.start(ended);
  await side.settle(ended, { answerId: 'of-ended' });
  for (const id of [running, ended, 'of-ended', `chatcmpl-${running}`]) {
    t.not(await side.look(id), undefined, id);
    t.is(await other.look(id), undefined, id);
  }
  await side.drain();
  for (const id of [ended, 'of-ended', `msg_${ended}`]) t.is(await other.look(id), undefined, id);
  for (const id of [
    nextId(),
    'req_',
    'x',
    '%',
    'req_1',
    '',
    'a'.repeat(200),
    '\0',
    `chatcmpl-${ended}`,
    `${ended}-1`,
    `x${ended}`,
    '$ne',
  ]) {
    t.is(await side.look(id), undefined, id);
  }
});

test('an id that the service has made for an answer finds its request, from its admission on', async (t) => {
  const side = await freshAccount();
  const [id, line] = [nextId(), `${nextId()}-2`];
  await side.admit(id);
  await side.admit(line, { lane: 'batch' });
  const made = ['chatcmpl-', 'cmpl-', 'resp_', 'msg_', 'rerank-'];
  for (const prefix of made) t.like(await side.look(prefix + id), { id, state: 'queued' });
  t.like(await side.look(`chatcmpl-${line}`), { id: line });
  await side.start(id);
  await side.settle(id);
  for (const prefix of made) t.like(await side.look(prefix + id), { id, state: 'ended', answer_id: null });
});

test('of several requests with the same id of an answer the latest is found', async (t) => {
  const side = await freshAccount();
  const ids = [nextId(), nextId(), nextId()];
  for (const [index, id] of ids.entries()) {
    await side.admit(id);
    await side.start(id);
    await side.settle(id, { answerId: 'same' });
    t.like(await side.look('same'), { id });
    if (index === 1) await side.drain();
  }
  await side.drain();
  t.like(await side.look('same'), { id: ids[2] });
});

test('an answer whose id was made of another request of the account is found by it', async (t) => {
  const side = await freshAccount();
  const [first, second] = [nextId(), nextId()];
  const cached = `chatcmpl-${first}`;
  await store.usage.recordUsage([
    usageRecord({ account: side.account, requestId: first, answerId: 'another' }),
    usageRecord({ account: side.account, requestId: second, answerId: cached }),
  ]);
  t.like(await side.look(cached), { id: second });
});

test('without the store, requests that run or wait to be stored are found, and others are unavailable', async (t) => {
  const account = `user:${ulid()}`;
  const home = await createSqliteHome();
  const away = await home.open();
  await away[Symbol.asyncDispose]();
  t.teardown(() => home[Symbol.asyncDispose]());
  const side = openRequests(own.redis, { account, store: away });
  await side.prepare(new Date().toISOString().slice(0, 7));
  const [running, ended] = [nextId(), nextId()];
  for (const id of [running, ended]) await side.admit(id);
  await side.start(ended);
  await side.settle(ended, { answerId: 'of-ended' });
  for (const id of [running, ended, 'of-ended']) t.not(await side.find(account, id), undefined, id);
  for (const id of [running, ended]) t.is((await side.findAny(id))?.account, account, id);
  await t.throwsAsync(side.findAny(nextId()), { code: 'SERVICE_UNAVAILABLE' });
  for (const id of [nextId(), 'unknown']) {
    await t.throwsAsync(side.find(account, id), { code: 'SERVICE_UNAVAILABLE' }, id);
  }
  await t.throwsAsync(side.list(account, { limit: 1, filter: {} }), { code: 'SERVICE_UNAVAILABLE' });
});

test('an entry that cannot be read hides no other, and is not shown', async (t) => {
  const side = await freshAccount();
  const [id, unreadable] = [nextId(), nextId()];
  const stream = outboxKey(partitionOf(side.account));
  await own.redis.xadd(
    stream,
    '*',
    'request',
    unreadable,
    'account',
    side.account,
    'report',
    '{"of":"a later release"}',
  );
  await side.admit(id);
  await side.start(id);
  await side.settle(id, { answerId: 'after-it' });
  t.like(await side.look('after-it'), { id });
  t.is(await side.look(unreadable), undefined);
  const { requests } = await side.list(side.account, { limit: 20, filter: {} });
  t.deepEqual(
    requests.map(({ request }) => request.requestId),
    [id],
  );
});
