import test from 'ava';
import { unchallengedMs } from '../../../../shared/jobs/queues.ts';
import type { Redis } from '../../../../shared/redis/connections.ts';
import { type BatchJob, batchJobSchema } from '../../../../workers/batches/lines/batch-job.ts';
import type { StopReason } from '../../../../workers/failover/run.ts';
import { type LineSide, openLineSide } from '../../../support/line-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../../support/private-redis.ts';
import { replaceClock } from '../../../support/redis-clock.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

const nothing = { used: 0, reserved: 0 };

/** Runs a line whose backend is called and does not answer. */
async function runHanging(side: LineSide, job: BatchJob = side.jobOf()) {
  side.servers[0]?.fail({ hang: true });
  const controller = new AbortController();
  const outcome = side.run(job, controller.signal);
  await side.servers[0]?.waitForCall(({ requestId }) => requestId === job.requestId);
  return { outcome, stop: (reason: StopReason) => controller.abort(reason) };
}

/** The state in which the only call has ended. */
const endOfCall = async (side: LineSide) =>
  (await side.servers[0]?.waitForCall(({ state }) => state !== 'running'))?.state;

/** A connection whose scripts have a clock that only the test moves. Its tests run one after another. */
async function stopClock(): Promise<{ redis: Redis; advance: (ms: number) => Promise<void> }> {
  const redis = own.connect();
  const setTime = replaceClock(redis);
  const startedAt = Date.now();
  await setTime(startedAt);
  return { redis, advance: (ms) => setTime(startedAt + ms) };
}

for (const [ending, state, code] of [
  ['cancelled', 'cancelling', 'batch_cancelled'],
  ['expired', 'finalizing', 'batch_expired'],
] as const) {
  test(`a line whose backend hangs ends when its batch is ${ending}, aborts its call, and is charged its prompt`, async (t) => {
    await using side = await openLineSide(own.redis);
    const { outcome } = await runHanging(side);
    await side.moveBatch({ state, ending });
    t.deepEqual(await outcome, { outcome: 'done' });
    t.is(await endOfCall(side), 'aborted');
    const result = await side.result();
    t.like(result, { failed: true, status: null, error: { code }, completionTokens: 0, estimated: true });
    t.true((result?.promptTokens ?? 0) > 0);
    t.deepEqual(await side.charged(), { used: result?.promptTokens ?? 0, reserved: 0 });
    t.like(await side.records(), { 0: { outcome: 'cancelled' }, length: 1 });
    t.like(side.events.at(-1), { type: 'ended', answered: false });
  });
}

test('a line whose account is suspended aborts its call, is charged nothing, and waits to be admitted again', async (t) => {
  await using side = await openLineSide(own.redis);
  const { outcome } = await runHanging(side);
  await side.change({ suspended: true });
  t.deepEqual(await outcome, { outcome: 'done' });
  t.is(await endOfCall(side), 'aborted');
  t.is(await side.result(), undefined);
  t.deepEqual(await side.charged(), nothing);
  t.is(await side.leases(), 0);
  t.like((await side.retries())[0], { number: 2, losses: 0, failures: 0 });
  t.is(side.events.at(-1)?.type, 'retry');

  side.servers[0]?.heal();
  const next = side.jobOf({ number: 2 });
  t.like(await side.run(next), { outcome: 'later' });
  t.is(side.calls().length, 1, 'no backend is called while the account is suspended');
  await side.change({ suspended: false });
  t.deepEqual(await side.run(next), { outcome: 'done' });
  t.like(await side.result(), { failed: false });
});

test.serial(
  'a line whose backend does not answer by the deadline is tried three times, and then ends with that error',
  async (t) => {
    // So each attempt has the whole time for its call, whatever came before it.
    const { redis } = await stopClock();
    await using side = await openLineSide(redis, { timeouts: { request_ms: 3_000, first_token_ms: 60_000 } });
    for (const [number, losses] of [
      [1, 0],
      [2, 1],
      [3, 2],
    ] as const) {
      const { outcome } = await runHanging(side, side.jobOf({ number, losses }));
      t.deepEqual(await outcome, { outcome: 'done' });
      t.is(await side.leases(), 0);
      if (number < 3) {
        t.is(await side.result(), undefined);
        t.like((await side.retries())[0], { number: number + 1, losses: losses + 1, failures: 0 });
        t.is(side.events.at(-1)?.type, 'retry');
      }
    }
    t.like(await side.result(), { failed: true, error: { code: 'DEADLINE_EXCEEDED' } });
    t.deepEqual(await side.charged(), nothing);
    t.is(side.calls().length, 3);
  },
);

test('a line that was taken without a slot, and gets none, is postponed, which counts as no loss', async (t) => {
  await using side = await openLineSide(own.redis, { requestsAtOnce: 1 });
  const releaseLock = await side.occupy();
  let job = side.jobOf();
  for (let times = 0; times < 2; times++) {
    const outcome = await side.run(job);
    if (outcome.outcome !== 'later') return t.fail(outcome.outcome);
    job = batchJobSchema.parse(outcome.job);
    t.is(side.events.at(-1)?.type, 'postponed');
  }
  t.deepEqual(await side.retries(), []);
  t.deepEqual(await side.pauses(), { backends: 2 });
  releaseLock();
  t.deepEqual(await side.run(job), { outcome: 'done' });
  t.is(await side.leases(), 0);
  t.like(await side.result(), { failed: false });
});

test.serial(
  'a requeued line whose deadline is over continues as the next request, which counts as no loss',
  async (t) => {
    const { redis, advance } = await stopClock();
    await using side = await openLineSide(redis);
    const { outcome, stop } = await runHanging(side);
    stop('shutdown');
    const requeued = await outcome;
    if (requeued.outcome !== 'requeue') return t.fail(requeued.outcome);
    await advance(side.planFile.timeouts.requestMs);
    await side.run(side.jobOf({ earlierRuns: requeued.job.earlierRuns }));
    t.like((await side.retries())[0], { number: 2, losses: 0, failures: 0 });
  },
);

test.serial(
  'a line whose worker died, and whose deadline is over when that is found, has lost one attempt',
  async (t) => {
    const { redis, advance } = await stopClock();
    await using side = await openLineSide(redis);
    const { outcome, stop } = await runHanging(side);
    stop('lock lost'); // after that the worker sends nothing, like one that was killed
    await outcome;
    await advance(side.planFile.timeouts.requestMs);
    t.deepEqual(await side.run(), { outcome: 'done' });
    t.like((await side.retries())[0], { number: 2, losses: 1 });
    t.is(await side.leases(), 0);
  },
);

test('a worker that loses the lock of a line aborts its call, sends nothing, and leaves the lease to the next worker', async (t) => {
  await using side = await openLineSide(own.redis);
  const { outcome, stop } = await runHanging(side);
  stop('lock lost');
  t.deepEqual(await outcome, { outcome: 'done' });
  t.is(await endOfCall(side), 'aborted');
  t.is(await side.result(), undefined);
  t.deepEqual(await side.retries(), []);
  t.deepEqual(side.eventTypes(), ['started']);
  t.is(await side.leases(), 1);
});

for (const [heldMs, isWritten] of [
  [unchallengedMs, true],
  [unchallengedMs + 1, false],
] as const) {
  const outcome = isWritten ? 'gets its result without a check' : 'is dropped, and is charged nothing';
  test(`a line that its worker has had for ${heldMs} ms, and whose batch is cleared, ${outcome}`, async (t) => {
    let now = 0;
    await using side = await openLineSide(own.redis, { now: () => now });
    const hanging = await runHanging(side);
    now = heldMs;
    await side.moveBatch({ state: 'cancelled', ending: 'cancelled', open: false });
    t.deepEqual(await hanging.outcome, { outcome: 'done' });
    t.is((await side.result()) !== undefined, isWritten);
    t.is(side.events.at(-1)?.type, isWritten ? 'ended' : 'dropped');
    if (!isWritten) t.deepEqual(await side.charged(), nothing);
    t.is(await side.leases(), 0);
  });
}

test('a shutdown requeues a line with its attempts, and another worker answers it', async (t) => {
  await using side = await openLineSide(own.redis);
  const { outcome, stop } = await runHanging(side);
  stop('shutdown');
  const requeued = await outcome;
  if (requeued.outcome !== 'requeue') return t.fail(requeued.outcome);
  t.like(requeued.job.earlierRuns, { 0: { run: 1, attempts: { 0: { outcome: 'stopped' } } }, length: 1 });
  t.is(await side.leases(), 1);
  side.servers[0]?.heal();
  t.deepEqual(await side.run(side.jobOf({ earlierRuns: requeued.job.earlierRuns })), { outcome: 'done' });
  t.like(await side.result(), { failed: false });
  const [record] = await side.records();
  t.deepEqual(
    record?.attempts.map(({ run, outcome: ended }) => [run, ended]),
    [
      [1, 'stopped'],
      [2, 'answered'],
    ],
  );
  t.deepEqual(await side.charged(), { used: record?.chargedTokens ?? -1, reserved: 0 });
});
