import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import test, { type ExecutionContext } from 'ava';
import { Queue } from 'bullmq';
import { Registry } from 'prom-client';
import { inferenceJobSchema } from '../../shared/inference-job.ts';
import type { Lane } from '../../shared/lane.ts';
import { jobName, queueName, queueOptions } from '../../shared/queues.ts';
import { type BodiesInHand, createBodiesInHand } from '../../workers/bodies-in-hand.ts';
import { createWorkerMetrics } from '../../workers/metrics.ts';
import { startPoolWorker } from '../../workers/pool-worker.ts';
import type { Outcome, ProcessJob } from '../../workers/run.ts';
import { openRedisDatabase, type RedisDatabase } from '../support/private-redis.ts';
import { recordedLog } from '../support/recorded-log.ts';
import { jobFor } from '../support/worker-side.ts';

let given: RedisDatabase;

test.before(async () => {
  given = await openRedisDatabase();
});

test.after.always(() => given?.[Symbol.asyncDispose]());

type Held = { lane: Lane; data: unknown; signal: AbortSignal; end: (outcome?: Outcome) => void };

type Wishes = { concurrency: number; batchConcurrency: number; bodies?: BodiesInHand };

/** A pool of the test's own, whose jobs stay in hand until the test ends them. */
function openPool(
  t: ExecutionContext,
  { bodies = createBodiesInHand({ bodyBytesMax: 1, bytesMax: 2 ** 40 }), ...given_ }: Wishes,
) {
  const pool = `pool-${randomUUID()}`;
  const held = new Set<Held>();
  const changed = new EventEmitter().setMaxListeners(100);
  const holdJob =
    (lane: Lane): ProcessJob =>
    ({ data, signal }) =>
      new Promise((resolve) => {
        const job: Held = {
          lane,
          data,
          signal,
          end(outcome = { outcome: 'done' }) {
            held.delete(job);
            resolve(outcome);
          },
        };
        held.add(job);
        changed.emit('change');
      });
  const queues = new Map(
    (['interactive', 'batch'] as const).map((lane) => {
      const queue = new Queue(queueName(pool, lane), queueOptions(queueName(pool, lane), given.redis));
      t.teardown(() => queue.close());
      return [lane, queue] as const;
    }),
  );
  const shutdown = new AbortController();
  const { log, lines } = recordedLog();
  const metrics = createWorkerMetrics(new Registry());
  const worker = startPoolWorker({
    ...{ pool, connection: given.redis, metrics, log, shutdown: shutdown.signal, ...given_ },
    bodies,
    work: {
      interactive: { processJob: holdJob('interactive'), endLost: async () => {} },
      batch: { processJob: holdJob('batch'), endLost: async () => {} },
    },
  });
  t.teardown(async () => {
    shutdown.abort();
    const finished = worker.finish();
    for (const job of held) job.end();
    await finished;
  });

  async function until(holds: () => boolean): Promise<void> {
    const signal = AbortSignal.timeout(10_000);
    while (!holds()) {
      const inHand = [...held].map(({ lane }) => lane);
      await once(changed, 'change', { signal }).catch(() => {
        throw new Error(`it has not come to that: ${inHand}`);
      });
    }
  }

  return {
    worker,
    lines,
    shutdown,
    async add(lane: Lane, jobs: number, changes = {}): Promise<void> {
      for (let added = 0; added < jobs; added++) {
        const job = { ...jobFor('svc:reply:test', {}), ...changes };
        await queues.get(lane)?.add(jobName, job, { jobId: job.requestId, priority: 10 });
      }
    },
    inHand: (lane: Lane) => [...held].filter((job) => job.lane === lane),
    until,
    waiting: async (lane: Lane) => queues.get(lane)?.getJobCountByTypes('waiting', 'prioritized'),
  };
}

test('the batch lane takes what the interactive lane leaves free, and no more', async (t) => {
  const pool = openPool(t, { concurrency: 6, batchConcurrency: 4 });
  await pool.add('interactive', 3);
  await pool.until(() => pool.inHand('interactive').length === 3);
  await pool.add('batch', 8);
  await pool.until(() => pool.inHand('batch').length === 3);
  await pool.add('interactive', 3);
  await pool.until(() => pool.inHand('interactive').length === 6);
  t.is(pool.inHand('batch').length, 3, 'what it has in hand is not taken from it');

  // Its places are not filled again while the interactive lane has all of them.
  for (const job of pool.inHand('batch')) job.end();
  const waiting = new Set<number | undefined>();
  for (let looks = 0; looks < 200; looks++) waiting.add(await pool.waiting('batch'));
  t.is(pool.inHand('batch').length, 0, `${[...waiting]}`);

  pool.inHand('interactive')[0]?.end();
  await pool.until(() => pool.inHand('batch').length === 1);
  for (const job of pool.inHand('interactive')) job.end();
  await pool.until(() => pool.inHand('batch').length === 4);
  t.is(await pool.waiting('batch'), 1);
});

test('the batch lane has no more at once than it may, however much is free', async (t) => {
  const pool = openPool(t, { concurrency: 50, batchConcurrency: 2 });
  await pool.add('batch', 5);
  await pool.until(() => pool.inHand('batch').length === 2);
  t.is(await pool.waiting('batch'), 3);
  pool.inHand('batch')[0]?.end();
  await pool.until(() => pool.inHand('batch').length === 2);
  t.is(await pool.waiting('batch'), 2);
});

test('no further job is taken while those in hand have as many bytes as they may, whatever their size', async (t) => {
  const megabyte = 1_048_576;
  const bodies = createBodiesInHand({ bodyBytesMax: 4 * megabyte, bytesMax: 16 * megabyte });
  const pool = openPool(t, { concurrency: 20, batchConcurrency: 10, bodies });
  const body = 'x'.repeat(3 * megabyte);
  await pool.add('interactive', 8, { body });
  await pool.add('batch', 4, { body });
  const inHand = () => [...pool.inHand('interactive'), ...pool.inHand('batch')];
  let most = 0;
  for (let ended = 0; ended < 12; ended++) {
    await pool.until(() => inHand().length > 0);
    for (let looks = 0; looks < 20; looks++) await pool.waiting('batch');
    most = Math.max(most, inHand().length);
    inHand()[0]?.end();
  }
  // With five of them there is still room, and each lane may take one.
  t.true(most >= 3 && most <= 7, `${most} at once`);
  await pool.add('interactive', 20, { body: 'small' });
  await pool.until(() => pool.inHand('interactive').length === 20);
});

test('a lane takes no job while others have the whole bound, and more as soon as there is room', async (t) => {
  const bodies = createBodiesInHand({ bodyBytesMax: 10, bytesMax: 1_000_000 });
  const pool = openPool(t, { concurrency: 20, batchConcurrency: 10, bodies });
  await pool.add('interactive', 1);
  await pool.until(() => pool.inHand('interactive').length === 1);
  const ofAnother = bodies.hold(1_000_000);
  await pool.add('interactive', 12);
  await pool.add('batch', 4);
  for (let looks = 0; looks < 50; looks++) await pool.waiting('batch');
  t.is(pool.inHand('interactive').length, 1);
  t.is(pool.inHand('batch').length, 0);
  ofAnother[Symbol.dispose]();
  await pool.until(() => pool.inHand('interactive').length === 13 && pool.inHand('batch').length === 4);
  t.is(await pool.waiting('interactive'), 0);
});

test('a worker of many pools fills each of them', async (t) => {
  const megabyte = 1_048_576;
  const bodies = createBodiesInHand({ bodyBytesMax: 4 * megabyte, bytesMax: 128 * megabyte });
  for (let lanes = 0; lanes < 40; lanes++) t.teardown(bodies.follow(() => {}));
  const pool = openPool(t, { concurrency: 20, batchConcurrency: 10, bodies });
  await pool.add('interactive', 20);
  await pool.until(() => pool.inHand('interactive').length === 20);
  t.is(await pool.waiting('interactive'), 0);
});

test('a lane that may have none is not served', async (t) => {
  const pool = openPool(t, { concurrency: 2, batchConcurrency: 0 });
  await pool.add('batch', 1);
  await pool.add('interactive', 2);
  await pool.until(() => pool.inHand('interactive').length === 2);
  t.is(await pool.waiting('batch'), 1);
});

test('a batch job that is put off comes again, and others run meanwhile', async (t) => {
  const pool = openPool(t, { concurrency: 4, batchConcurrency: 1 });
  await pool.add('batch', 2);
  await pool.until(() => pool.inHand('batch').length === 1);
  const [first] = pool.inHand('batch');
  first?.end({ outcome: 'later', pauseMs: 500, job: inferenceJobSchema.parse(first.data) });
  await pool.until(() => pool.inHand('batch').length === 1);
  const [second] = pool.inHand('batch');
  t.not(second?.data, first?.data);
  second?.end();
  await pool.until(() => pool.inHand('batch').length === 1);
  t.deepEqual(pool.inHand('batch')[0]?.data, first?.data);
  t.deepEqual(pool.lines, []);
});

test('a job of either lane is aborted by its id, and all go back at a shutdown', async (t) => {
  const pool = openPool(t, { concurrency: 4, batchConcurrency: 2 });
  await pool.add('interactive', 1);
  await pool.add('batch', 1);
  await pool.until(() => pool.inHand('batch').length === 1 && pool.inHand('interactive').length === 1);
  pool.shutdown.abort();
  const finished = pool.worker.finish();
  pool.worker.handBackAll();
  const jobs = [...pool.inHand('interactive'), ...pool.inHand('batch')];
  t.deepEqual(
    jobs.map(({ signal }) => signal.reason),
    ['shutdown', 'shutdown'],
  );
  for (const job of jobs) job.end({ outcome: 'hand back', job: jobFor('svc:reply:test', {}) });
  await finished;
  t.deepEqual([await pool.waiting('interactive'), await pool.waiting('batch')], [1, 1]);
});
