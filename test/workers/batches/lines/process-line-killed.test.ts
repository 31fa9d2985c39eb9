import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { answeredLine, failedLine, unfinished } from '../../../../workers/batches/lines/line-results.ts';
import { type Breakable, type LineSide, openLineSide } from '../../../support/line-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../../support/private-redis.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

const usage = { promptTokens: 30, completionTokens: 12, cachedTokens: 0, estimated: false };

async function tokensOf(side: LineSide): Promise<number> {
  const { promptTokens = 0, completionTokens = 0 } = (await side.result()) ?? {};
  return promptTokens + completionTokens;
}

/** Runs a worker that admits and starts the line, and is killed. */
async function killedAfterStart(side: LineSide) {
  side.servers[0]?.fail({ hang: true });
  const stop = new AbortController();
  const run = side.run(side.jobOf(), stop.signal);
  await side.servers[0]?.waitForCall(({ state }) => state === 'running');
  stop.abort('lock lost'); // after that the worker sends and writes nothing, like one that was killed
  await run;
  side.servers[0]?.heal();
}

test('after a worker was killed between storing and settling a result, the next one settles it once, without a call', async (t) => {
  await using side = await openLineSide(own.redis);
  await killedAfterStart(side);
  await side.store.insertResults([answeredLine(side.jobOf(), '{}', usage)]);
  t.is((await side.charged()).used, 0);
  for (const time of [1, 2, 3]) {
    t.deepEqual(await side.run(), { outcome: 'done' }, `taking ${time}`);
    t.deepEqual(await side.charged(), { used: 42, reserved: 0 });
  }
  t.is(side.calls().length, 1, 'of the worker that was killed');
  t.like(await side.records(), { 0: { chargedTokens: 42, runs: 2, outcome: 'completed' }, length: 1 });
  t.is(await side.leases(), 0);
  t.like(side.events.at(-1), { type: 'ended', answered: true });
});

test('after a worker was killed before its line had a result, the next one runs the line', async (t) => {
  await using side = await openLineSide(own.redis);
  await killedAfterStart(side);
  t.deepEqual(await side.run(), { outcome: 'done' });
  t.deepEqual(await side.charged(), { used: await tokensOf(side), reserved: 0 });
  t.like(await side.records(), { 0: { runs: 2 }, length: 1 });
});

test('a line that was closed while a worker still ran it is charged nothing', async (t) => {
  await using side = await openLineSide(own.redis);
  side.servers[0]?.fail({ latencyMs: 300 });
  const run = side.run();
  await side.servers[0]?.waitForCall(() => true);
  const closed = failedLine(side.jobOf(), unfinished.cancelled);
  await side.store.insertResults([closed]);
  t.deepEqual(await run, { outcome: 'done' });
  t.deepEqual(await side.result(), closed);
  t.deepEqual(await side.charged(), { used: 0, reserved: 0 });
  t.like(await side.records(), { 0: { outcome: 'cancelled', chargedTokens: 0 }, length: 1 });
});

test('the result of a superseded worker is kept, and charged to the later run', async (t) => {
  await using side = await openLineSide(own.redis);
  side.servers[0]?.fail({ latencyMs: 300 });
  const run = side.run();
  await side.servers[0]?.waitForCall(() => true);
  await side.store.insertResults([answeredLine(side.jobOf(), '{"first":true}', usage)]);
  await run;
  t.is((await side.result())?.body, '{"first":true}');
  t.deepEqual(await side.charged(), { used: 42, reserved: 0 });
});

test('a superseded worker does nothing', async (t) => {
  await using side = await openLineSide(own.redis);
  await killedAfterStart(side);
  const { account } = side;
  await side.startRun({ account, requestId: side.jobOf().requestId, taken: 7, lane: 'batch' });
  t.deepEqual(await side.run(), { outcome: 'done' });
  t.is(side.calls().length, 1);
  t.is(await side.leases(), 1, 'it belongs to the other worker');
  t.is(await side.result(), undefined);
});

for (const call of ['findLine', 'findAccount'] as const satisfies Breakable[]) {
  test(`while the store is unavailable in ${call}, a line is postponed, which counts as no loss`, async (t) => {
    await using side = await openLineSide(own.redis);
    side.broken.add(call);
    const job = side.jobOf();
    t.like(await side.run(job), { outcome: 'later', job: { requestId: job.requestId, earlierRuns: [] } });
    t.is(side.calls().length, 0);
    t.is(await side.leases(), 0);
    t.deepEqual(await side.pauses(), { unavailable: 1 });
    side.broken.clear();
    t.deepEqual(await side.retries(), []);
    t.deepEqual(await side.run(job), { outcome: 'done' });
    t.deepEqual(await side.charged(), { used: await tokensOf(side), reserved: 0 });
  });
}

test('while its result cannot be stored, a line waits with its answer, and does not run again', async (t) => {
  await using side = await openLineSide(own.redis);
  side.broken.add('insertResults');
  const run = side.run();
  await side.servers[0]?.waitForCall(({ state }) => state === 'completed');
  await sleep(50);
  t.is(await side.leases(), 1);
  t.is((await side.charged()).used, 0, 'nothing is charged before it is stored');
  side.broken.clear();
  t.deepEqual(await run, { outcome: 'done' });
  t.deepEqual(await side.charged(), { used: await tokensOf(side), reserved: 0 });
  t.is(side.calls().length, 1);
});

test('while its retry cannot be recorded, a line keeps its lease and is postponed', async (t) => {
  await using side = await openLineSide(own.redis);
  side.broken.add('recordRetry');
  side.servers[0]?.fail({ status: 503, times: 1 });
  const job = side.jobOf();
  t.like(await side.run(job), { outcome: 'later', job: { requestId: job.requestId, earlierRuns: [] } });
  t.is(await side.leases(), 1);
  side.broken.clear();
  t.deepEqual(await side.run(job), { outcome: 'done' });
  t.like(await side.result(), { failed: false });
  t.deepEqual(await side.charged(), { used: await tokensOf(side), reserved: 0 });
});

test('a shutdown while the store is unavailable requeues the line, and its answer is not written later', async (t) => {
  await using side = await openLineSide(own.redis);
  side.broken.add('insertResults');
  const stop = new AbortController();
  const run = side.run(side.jobOf(), stop.signal);
  await side.servers[0]?.waitForCall(({ state }) => state === 'completed');
  stop.abort('shutdown');
  t.like(await run, { outcome: 'requeue' });
  side.broken.clear();
  await sleep(50);
  t.is(await side.result(), undefined);
  t.deepEqual(await side.run(), { outcome: 'done' });
  t.deepEqual(await side.charged(), { used: await tokensOf(side), reserved: 0 });
});

for (const [call, when] of [
  ['settle', 'settling'],
  ['startRun', 'the start of settling'],
] as const) {
  test(`a line with a result keeps its lease when ${when} fails, and the next attempt charges it`, async (t) => {
    await using side = await openLineSide(own.redis);
    if (call === 'startRun') {
      await killedAfterStart(side);
      await side.store.insertResults([answeredLine(side.jobOf(), '{}', usage)]);
    }
    const callsBefore = side.calls().length;
    side.broken.add(call);
    t.like(await side.run(), { outcome: 'later' });
    t.not(await side.result(), undefined);
    t.deepEqual(await side.retries(), [], 'it does not run again');
    t.is(await side.leases(), 1);
    side.broken.clear();
    t.deepEqual(await side.run(), { outcome: 'done' });
    t.deepEqual(await side.charged(), { used: await tokensOf(side), reserved: 0 });
    t.is(side.calls().length, callsBefore + (call === 'settle' ? 1 : 0));
  });
}

test('an internal error costs a line one of its three attempts', async (t) => {
  await using side = await openLineSide(own.redis);
  side.broken.add('startRun');
  t.deepEqual(await side.run(), { outcome: 'done' });
  t.like(await side.retries(), { 0: { number: 2, losses: 1, failures: 0 }, length: 1 });
  t.is(await side.leases(), 0);
  await side.run(side.jobOf({ number: 2, losses: 1 }));
  t.deepEqual(await side.run(side.jobOf({ number: 3, losses: 2 })), { outcome: 'done' });
  t.like(await side.result(), { failed: true, error: { code: 'INTERNAL_ERROR' } });
  t.is(await side.leases(), 0);
  t.deepEqual(await side.charged(), { used: 0, reserved: 0 });
  t.is(side.events.at(-1)?.type, 'ended');
});

test('a line whose workers kept dying ends with an error, and releases its lease', async (t) => {
  await using side = await openLineSide(own.redis);
  await killedAfterStart(side);
  await side.failLost({ data: side.jobOf(), isStalled: true, taken: 4 });
  t.like(await side.result(), { failed: true, error: { code: 'INTERNAL_ERROR' } });
  t.is(await side.leases(), 0);
  t.deepEqual(await side.charged(), { used: 0, reserved: 0 });
  t.is(side.calls().length, 1);
});

test('a line whose workers kept dying after its answer was stored is charged for that', async (t) => {
  await using side = await openLineSide(own.redis);
  await killedAfterStart(side);
  await side.store.insertResults([answeredLine(side.jobOf(), '{}', usage)]);
  await side.failLost({ data: side.jobOf(), isStalled: true, taken: 4 });
  t.like(await side.result(), { failed: false });
  t.deepEqual(await side.charged(), { used: 42, reserved: 0 });
});

test('a line whose workers kept dying is settled, also if that fails at first', async (t) => {
  await using side = await openLineSide(own.redis);
  await killedAfterStart(side);
  await side.store.insertResults([answeredLine(side.jobOf(), '{}', usage)]);
  side.broken.add('settle');
  const ending = side.failLost({ data: side.jobOf(), isStalled: true, taken: 4 });
  await sleep(100);
  side.broken.clear();
  await ending;
  t.deepEqual(await side.charged(), { used: 42, reserved: 0 });
});
