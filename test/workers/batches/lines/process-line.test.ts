import test from 'ava';
import { requestIdOf } from '../../../../workers/batches/lines/batch-job.ts';
import { resultOf, retryOf } from '../../../shared/store/batch-records.ts';
import { type LineSide, openLineSide } from '../../../support/line-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../../support/private-redis.ts';
import { rawAnswer, startRawBackend } from '../../../support/raw-backend.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

const nothing = { used: 0, reserved: 0 };

/** The usage in the result of a line, which must be charged. */
async function tokensOf(side: LineSide, line = 1): Promise<number> {
  const { promptTokens = 0, completionTokens = 0 } = (await side.result(line)) ?? {};
  return promptTokens + completionTokens;
}

test('an answered line has a result, is charged its usage, and its event is sent', async (t) => {
  await using side = await openLineSide(own.redis);
  t.deepEqual(await side.run(), { outcome: 'done' });
  const requestId = requestIdOf(side.batch.id, 1, 1);
  t.like(await side.result(), { requestId, customId: 'line 1', failed: false, status: 200, error: null });
  const tokens = await tokensOf(side);
  t.true(tokens > 0);
  t.deepEqual(await side.charged(), { used: tokens, reserved: 0 });
  t.is(await side.leases(), 0);
  t.like(await side.records(), {
    0: { requestId, batch: side.batch.id, outcome: 'completed', chargedTokens: tokens, runs: 1 },
    length: 1,
  });
  t.deepEqual(side.events, [
    { type: 'started', batch: side.batch.id, line: 1, number: 1 },
    { type: 'ended', answered: true, batch: side.batch.id, line: 1, number: 1 },
  ]);
  t.regex(
    await side.registry.metrics(),
    /^svc_batch_lines_total\{endpoint="\/v1\/chat\/completions",outcome="completed"\} 1$/m,
  );
});

test('while clients use the worker, a line waits for the answers of earlier lines of its account', async (t) => {
  await using side = await openLineSide(own.redis);
  side.linePace.noteTaking('interactive');
  using earlier = side.linePace.begin(side.account);
  earlier.received(4_194_304);
  earlier[Symbol.dispose]();
  const outcome = await side.run();
  t.like(outcome, { outcome: 'later' });
  t.true('pauseMs' in outcome && outcome.pauseMs > 1_000);
  t.deepEqual(side.eventTypes(), ['postponed']);
  t.deepEqual(await side.pauses(), { clients: 1 });
  t.is(side.calls().length, 0);
  t.is(await side.leases(), 0);
});

test('a line that its backend refuses ends in the error file with the backend’s message, and costs nothing', async (t) => {
  await using side = await openLineSide(own.redis, { servers: 2 });
  side.servers[0]?.fail({ status: 400, errorMessage: 'that is too long' });
  side.servers[1]?.fail({ status: 400, errorMessage: 'that is too long' });
  t.deepEqual(await side.run(), { outcome: 'done' });
  t.like(await side.result(), { failed: true, status: 400, error: { code: 'VALIDATION_ERROR' } });
  t.regex((await side.result())?.error?.message ?? '', /that is too long/);
  t.deepEqual(await side.charged(), nothing);
  t.like(await side.records(), { 0: { outcome: 'failed', chargedTokens: 0 }, length: 1 });
  t.is(side.calls().length, 1, 'no other backend is called');
  t.deepEqual(side.eventTypes(), ['started', 'ended']);
});

test('a line whose answer is too large is charged its prompt and its whole limit, because what was produced is not known', async (t) => {
  const body = JSON.stringify({ id: 'x', choices: [], padding: 'x'.repeat(4_194_304) });
  await using large = await startRawBackend((socket) => socket.end(rawAnswer(body, { type: 'application/json' })));
  await using side = await openLineSide(own.redis, { url: large.url });
  side.linePace.noteTaking('interactive');
  t.deepEqual(await side.run({ ...side.jobOf(), assembled: false }), { outcome: 'done' });
  const { outputTokensMax } = side.jobOf();
  t.true(outputTokensMax > 0);
  t.like(await side.result(), { failed: true, completionTokens: outputTokensMax, estimated: true });
  t.deepEqual(await side.charged(), { used: await tokensOf(side), reserved: 0 });
  t.like(await side.run(side.jobOf({ line: 2 })), { outcome: 'later' }, 'what it received counts as an answer');
});

test('a line whose backends fail is recorded for a retry, releases its lease, and is charged nothing', async (t) => {
  await using side = await openLineSide(own.redis, { servers: 2 });
  for (const server of side.servers) server.fail({ status: 503 });
  const startedAt = Date.now();
  t.deepEqual(await side.run(), { outcome: 'done' });
  t.is(await side.result(), undefined);
  const [retry] = await side.retries();
  t.like(retry, { line: 1, number: 2, failures: 1, losses: 0 });
  t.true((retry?.notBefore.getTime() ?? 0) >= startedAt + 500);
  t.deepEqual(await side.charged(), nothing);
  t.is(await side.leases(), 0);
  t.deepEqual(await side.records(), []);
  t.is(side.calls().length, 2, 'each backend once');
  t.like(side.events.at(-1), { type: 'retry', retry: { number: 2 } });

  for (const server of side.servers) server.heal();
  await side.run(side.jobOf({ number: 2, failures: 1 }));
  t.deepEqual(await side.charged(), { used: await tokensOf(side), reserved: 0 });
  t.is((await side.result())?.requestId, requestIdOf(side.batch.id, 1, 2));
});

test('while an account runs as many lines as it may, the next line is postponed and holds no lease', async (t) => {
  await using side = await openLineSide(own.redis, {
    plans: { narrow: { batch_requests_at_once: 1, priority: 1, model_tiers: ['guest'] } },
  });
  await side.change({ plan: 'narrow' });
  side.servers[0]?.fail({ hang: true });
  const stop = new AbortController();
  const first = side.run(side.jobOf(), stop.signal);
  await side.servers[0]?.waitForCall(({ state }) => state === 'running');
  const job = side.jobOf({ line: 2 });
  t.like(await side.run(job), { outcome: 'later', job: { requestId: job.requestId, earlierRuns: [] } });
  t.is(await side.leases(), 1);
  t.like(side.events.at(-1), { type: 'postponed', line: 2 });
  t.deepEqual(await side.pauses(), { limits: 1 });
  side.servers[0]?.heal();
  stop.abort('lock lost');
  t.deepEqual(await first, { outcome: 'done' });
  await side.release({ ...side.jobOf(), lane: 'batch', run: 'any' });
  t.deepEqual(await side.run(job), { outcome: 'done' });
  t.like(await side.result(2), { failed: false });
});

test('a line whose account has used its monthly quota ends with that error, and calls no backend', async (t) => {
  await using side = await openLineSide(own.redis, {
    plans: { small: { tokens_per_month: 1, priority: 1, model_tiers: ['guest'] } },
  });
  await side.change({ plan: 'small' });
  await side.run(side.jobOf({ line: 2 }));
  const charged = await side.charged();
  t.true(charged.used > 1, 'the first line is admitted');
  t.deepEqual(await side.run(), { outcome: 'done' });
  t.like(await side.result(), { failed: true, status: null, error: { code: 'quota_exceeded' } });
  t.deepEqual(await side.charged(), charged);
  t.is(side.calls().length, 1);
  t.like(side.events.at(-1), { type: 'ended', answered: false });
});

test('a line whose model is no longer in the account’s plan ends with that error', async (t) => {
  await using side = await openLineSide(own.redis);
  await side.change({ plan: 'guest-device' });
  t.deepEqual(await side.run(side.jobOf({ model: 'medium-chat' })), { outcome: 'done' });
  t.like(await side.result(), { failed: true, error: { code: 'rate_limit_exceeded' } });
  t.is(side.calls().length, 0);
  t.is(await side.leases(), 0);
});

test('a line that was requeued with its lease releases it when the plan no longer allows the line', async (t) => {
  await using side = await openLineSide(own.redis);
  const job = side.jobOf({ model: 'medium-chat' });
  side.servers[0]?.fail({ hang: true });
  const stop = new AbortController();
  const first = side.run(job, stop.signal);
  await side.servers[0]?.waitForCall(({ state }) => state === 'running');
  stop.abort('shutdown');
  t.like(await first, { outcome: 'requeue' });
  t.is(await side.leases(), 1);
  await side.change({ plan: 'guest-device' });
  t.deepEqual(await side.run(job), { outcome: 'done' });
  t.like(await side.result(), { failed: true });
  t.is(await side.leases(), 0);
  t.deepEqual(await side.charged(), nothing);
});

test('a line of a suspended account waits, and continues when the account is no longer suspended', async (t) => {
  await using side = await openLineSide(own.redis);
  await side.change({ suspended: true });
  const job = side.jobOf();
  t.like(await side.run(job), { outcome: 'later', job: { requestId: job.requestId, earlierRuns: [] } });
  t.is(side.calls().length, 0);
  await side.change({ suspended: false });
  t.deepEqual(await side.run(job), { outcome: 'done' });
  t.like(await side.result(), { failed: false });
});

const furtherKey = {
  ...{ id: 'key_1', display: 'svc_000000', hash: 'hash', name: 'import', isDefault: false },
  ...{ state: 'active' as const, createdAt: new Date(0) },
};

test('a line outside of the further key of its batch ends with that error, also after the key has ended', async (t) => {
  await using side = await openLineSide(own.redis);
  const narrow = { ...furtherKey, models: ['large-chat'] };
  const { hash: _, ...ended } = { ...narrow, state: 'revoked' as const, endedAt: new Date(1) };
  for (const [line, key] of [narrow, ended].entries()) {
    await side.change({ keys: [key] });
    const [refused, allowed] = [2 * line + 1, 2 * line + 2];
    t.deepEqual(await side.run(side.jobOf({ line: refused, keyId: 'key_1' })), { outcome: 'done' });
    t.like(await side.result(refused), { failed: true, status: null, error: { code: 'FORBIDDEN' } });
    t.regex((await side.result(refused))?.error?.message ?? '', /model "small-chat"/);
    t.deepEqual(await side.run(side.jobOf({ line: allowed, keyId: 'key_2' })), { outcome: 'done' });
    t.like(await side.result(allowed), { failed: false }, 'another key');
  }
});

test('a line counts against the month of its further key, and not against its minute', async (t) => {
  await using side = await openLineSide(own.redis);
  await side.change({ keys: [{ ...furtherKey, limits: { requestsPerMinute: 1, tokensPerMonth: 1_000_000 } }] });
  const keyId = 'key_1';
  for (const line of [1, 2]) {
    await side.run(side.jobOf({ line, keyId }));
    t.like(await side.result(line), { failed: false });
  }
  const used = (await tokensOf(side, 1)) + (await tokensOf(side, 2));
  await side.change({ keys: [{ ...furtherKey, limits: { tokensPerMonth: used } }] });
  await side.run(side.jobOf({ line: 3, keyId }));
  t.like(await side.result(3), { failed: true, status: null, error: { code: 'quota_exceeded' } });
  t.regex((await side.result(3))?.error?.message ?? '', /this API key/);
  t.is(await side.leases(), 0);
  await side.run(side.jobOf({ line: 4, keyId: 'key_2' }));
  t.like(await side.result(4), { failed: false }, 'another key');
});

test('a line waits while the month of its key is only reserved, because that may be given back', async (t) => {
  await using side = await openLineSide(own.redis);
  const keyId = 'key_1';
  const first = side.jobOf({ keyId });
  await side.change({ keys: [{ ...furtherKey, limits: { tokensPerMonth: first.reservedTokens } }] });
  side.servers[0]?.fail({ hang: true });
  const stop = new AbortController();
  const running = side.run(first, stop.signal);
  await side.servers[0]?.waitForCall(({ state }) => state === 'running');
  const job = side.jobOf({ line: 2, keyId });
  t.like(await side.run(job), { outcome: 'later' });
  t.is(await side.result(2), undefined);
  side.servers[0]?.heal();
  stop.abort('lock lost');
  await running;
  await side.release({ ...first, lane: 'batch', run: 'any' });
  t.deepEqual(await side.run(job), { outcome: 'done' });
  t.like(await side.result(2), { failed: false });
});

test('a line runs under the account’s plan at that time, and its usage record names that plan', async (t) => {
  await using side = await openLineSide(own.redis);
  await side.change({ plan: 'pro' });
  await side.run();
  t.like(await side.records(), { 0: { plan: 'pro' } });
});

test('a job of a request that is not the line’s latest is dropped with its lease', async (t) => {
  await using side = await openLineSide(own.redis);
  side.servers[0]?.fail({ hang: true });
  const stop = new AbortController();
  const first = side.run(side.jobOf(), stop.signal);
  await side.servers[0]?.waitForCall(({ state }) => state === 'running');
  stop.abort('shutdown');
  await first;
  t.is(await side.leases(), 1);
  await side.store.recordRetry(retryOf(side.batch.id, 1));
  t.deepEqual(await side.run(), { outcome: 'done' });
  t.is(await side.leases(), 0);
  t.deepEqual(await side.charged(), nothing);
  t.is(await side.result(), undefined);
  t.is(side.events.at(-1)?.type, 'dropped');
  t.is(side.calls().length, 1);
});

for (const state of ['cancelling', 'finalizing', 'completed'] as const) {
  test(`a line of a batch that is ${state} is not run`, async (t) => {
    await using side = await openLineSide(own.redis);
    await side.moveBatch({ state, ending: 'cancelled' });
    t.deepEqual(await side.run(), { outcome: 'done' });
    t.is(side.calls().length, 0);
    t.is(await side.result(), undefined);
    t.is(side.events.at(-1)?.type, 'dropped');
  });
}

test('a line of an unknown batch is not run', async (t) => {
  await using side = await openLineSide(own.redis);
  t.deepEqual(await side.run(side.jobOf({ batch: 'batch_gone' })), { outcome: 'done' });
  t.is(side.calls().length, 0);
});

test('a job whose line has the result of another request is dropped, and charged nothing', async (t) => {
  await using side = await openLineSide(own.redis);
  await side.run();
  const charged = await side.charged();
  await side.store.recordRetry(retryOf(side.batch.id, 1));
  t.deepEqual(await side.run(side.jobOf({ number: 2 })), { outcome: 'done' });
  t.deepEqual(await side.charged(), charged);
  t.is(side.calls().length, 1);
});

test('a result whose worker died before settling is charged by the worker that finds it, once, under its own request', async (t) => {
  await using side = await openLineSide(own.redis);
  const requestId = requestIdOf(side.batch.id, 1, 1);
  const tokens = { promptTokens: 60, completionTokens: 40 };
  await side.store.insertResults([resultOf(side.batch.id, 1, { requestId, ...tokens })]);
  await side.store.recordRetry(retryOf(side.batch.id, 1));
  for (let takings = 0; takings < 2; takings++) {
    t.deepEqual(await side.run(side.jobOf({ number: 2 })), { outcome: 'done' });
    t.deepEqual(await side.charged(), { used: 100, reserved: 0 });
  }
  t.like(await side.records(), { 0: { requestId, ...tokens }, length: 1 });
  t.is(side.calls().length, 0);
});
