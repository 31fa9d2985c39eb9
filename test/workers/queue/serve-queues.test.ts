import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { type Queue, Worker } from 'bullmq';
import { inferenceJobSchema } from '../../../shared/jobs/inference-job.ts';
import { jobName, modelQueue, workerOptions } from '../../../shared/jobs/queues.ts';
import type { Redis } from '../../../shared/redis/connections.ts';
import type { Lane } from '../../../shared/redis/keys.ts';
import type { JobOutcome, ProcessJob } from '../../../workers/failover/run.ts';
import { createHeldPayloads, type HeldPayloads } from '../../../workers/queue/lane-worker.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { openServedQueues, slotsForAll } from '../../support/served-queues.ts';
import { jobFor } from '../../support/worker-side.ts';

let given: RedisDatabase;

test.before(async () => {
  given = await openRedisDatabase();
});

test.after.always(() => given?.[Symbol.asyncDispose]());

type Held = { lane: Lane; data: unknown; signal: AbortSignal; end: (outcome?: JobOutcome) => void };

type Wishes = { models?: number; concurrency: number; batchConcurrency: number; payloads?: HeldPayloads };

/** The queues of models that only this test uses. Their jobs stay in progress until the test ends them. */
function openModels(t: ExecutionContext, { models = 1, ...wishes }: Wishes) {
  const served = openServedQueues(t, given, models);
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
  const worker = served.serve({
    ...wishes,
    work: {
      interactive: { processJob: holdJob('interactive'), failLost: async () => {} },
      batch: { processJob: holdJob('batch'), failLost: async () => {} },
    },
  });
  t.teardown(() => {
    worker.shutdown.abort();
    for (const job of held) job.end();
  });

  async function until(holds: () => boolean): Promise<void> {
    const signal = AbortSignal.timeout(30_000);
    while (!holds()) {
      const running = [...held].map(({ lane }) => lane);
      await once(changed, 'change', { signal }).catch(() => {
        throw new Error(`this state was not reached: ${running}`);
      });
    }
  }

  const queueOf = (lane: Lane, model = 0) => served.queue(modelQueue(served.models[model] ?? '', lane));
  return {
    worker,
    queueOf,
    ...{ lines: served.lines, shutdown: worker.shutdown, pool: served.pool, queue: served.queue },
    async add(lane: Lane, jobs: number, changes = {}, model = 0): Promise<void> {
      for (let added = 0; added < jobs; added++) {
        const job = { ...jobFor('svc:reply:test', {}), model: served.models[model], ...changes };
        await queueOf(lane, model).add(jobName, job, { jobId: job.requestId, priority: 10 });
      }
    },
    running: (lane: Lane) => [...held].filter((job) => job.lane === lane),
    until,
    waiting: async (lane: Lane) => queueOf(lane).getJobCountByTypes('waiting', 'prioritized'),
  };
}

test('the batch lane uses only what the interactive lane leaves free', async (t) => {
  const queues = openModels(t, { concurrency: 6, batchConcurrency: 4 });
  await queues.add('interactive', 3);
  await queues.until(() => queues.running('interactive').length === 3);
  await queues.add('batch', 8);
  await queues.until(() => queues.running('batch').length === 3);
  await queues.add('interactive', 3);
  await queues.until(() => queues.running('interactive').length === 6);
  t.is(queues.running('batch').length, 3, 'jobs in progress are not taken from it');

  // Its places stay empty while the interactive lane uses all of them.
  for (const job of queues.running('batch')) job.end();
  const waiting = new Set<number | undefined>();
  for (let looks = 0; looks < 200; looks++) waiting.add(await queues.waiting('batch'));
  t.is(queues.running('batch').length, 0, `${[...waiting]}`);

  queues.running('interactive')[0]?.end();
  await queues.until(() => queues.running('batch').length === 1);
  for (const job of queues.running('interactive')) job.end();
  await queues.until(() => queues.running('batch').length === 4);
  t.is(await queues.waiting('batch'), 1);
});

test('the batch lane never exceeds its concurrency, even if more is free', async (t) => {
  const queues = openModels(t, { concurrency: 50, batchConcurrency: 2 });
  await queues.add('batch', 5);
  await queues.until(() => queues.running('batch').length === 2);
  t.is(await queues.waiting('batch'), 3);
  queues.running('batch')[0]?.end();
  await queues.until(() => queues.running('batch').length === 2);
  t.is(await queues.waiting('batch'), 2);
});

test('no job is taken while those in progress have reached the limit of bytes', async (t) => {
  const megabyte = 1_048_576;
  const payloads = createHeldPayloads({ bodyBytesMax: 4 * megabyte, bytesMax: 16 * megabyte });
  const queues = openModels(t, { concurrency: 20, batchConcurrency: 10, payloads });
  const payload = 'x'.repeat(3 * megabyte);
  await queues.add('interactive', 8, { payload });
  await queues.add('batch', 4, { payload });
  const running = () => [...queues.running('interactive'), ...queues.running('batch')];
  let most = 0;
  for (let ended = 0; ended < 12; ended++) {
    await queues.until(() => running().length > 0);
    for (let looks = 0; looks < 20; looks++) await queues.waiting('batch');
    most = Math.max(most, running().length);
    running()[0]?.end();
  }
  // With five of them there is still room, so one more may be taken.
  t.true(most >= 3 && most <= 6, `${most} at once`);
  await queues.add('interactive', 20, { payload: 'small' });
  await queues.until(() => queues.running('interactive').length === 20);
});

test('no job is taken while one job uses the whole limit, and many as soon as there is room', async (t) => {
  const payloads = createHeldPayloads({ bodyBytesMax: 10, bytesMax: 1_000_000 });
  const queues = openModels(t, { concurrency: 20, batchConcurrency: 10, payloads });
  await queues.add('interactive', 1, { payload: 'x'.repeat(1_000_000) });
  await queues.until(() => queues.running('interactive').length === 1);
  await queues.add('interactive', 12);
  await queues.add('batch', 4);
  for (let looks = 0; looks < 50; looks++) await queues.waiting('batch');
  t.is(queues.running('interactive').length, 1);
  t.is(queues.running('batch').length, 0);
  queues.running('interactive')[0]?.end();
  await queues.until(() => queues.running('interactive').length === 12 && queues.running('batch').length === 4);
  t.is(await queues.waiting('interactive'), 0);
});

test('full queues are checked once for renewals of shares at the same time', async (t) => {
  const served = openServedQueues(t, given);
  const work = { processJob: async () => ({ outcome: 'done' }) as const, failLost: async () => {} };
  let looks = 0;
  const slots = { reserve: () => ({ outcome: 'full' }) as const, hasSlot: () => ++looks < 0 };
  const { checkFull } = served.serve({ slots, work: { interactive: work, batch: work } });
  const looksOf = (checks: number) => {
    const before = looks;
    for (let check = 0; check < checks; check++) void checkFull();
    return looks - before;
  };
  t.deepEqual([looksOf(5), looksOf(5)], [2, 0], 'one of each queue');
  await sleep(200);
  t.is(looksOf(5), 2);
});

test('a lane with a concurrency of 0 is not served', async (t) => {
  const queues = openModels(t, { concurrency: 2, batchConcurrency: 0 });
  await queues.add('batch', 1);
  await queues.add('interactive', 2);
  await queues.until(() => queues.running('interactive').length === 2);
  t.is(await queues.waiting('batch'), 1);
});

test('a delayed batch job runs again, and others run meanwhile', async (t) => {
  const queues = openModels(t, { concurrency: 4, batchConcurrency: 1 });
  await queues.add('batch', 2);
  await queues.until(() => queues.running('batch').length === 1);
  const [first] = queues.running('batch');
  first?.end({ outcome: 'later', pauseMs: 500, job: inferenceJobSchema.parse(first.data) });
  await queues.until(() => queues.running('batch').length === 1);
  const [second] = queues.running('batch');
  t.not(second?.data, first?.data);
  second?.end();
  await queues.until(() => queues.running('batch').length === 1);
  t.deepEqual(queues.running('batch')[0]?.data, first?.data);
  t.deepEqual(queues.lines, []);
});

test('a job of either lane is aborted by its id, and all are requeued at a shutdown', async (t) => {
  const queues = openModels(t, { concurrency: 4, batchConcurrency: 2 });
  await queues.add('interactive', 1);
  await queues.add('batch', 1);
  await queues.until(() => queues.running('batch').length === 1 && queues.running('interactive').length === 1);
  queues.shutdown.abort();
  const finished = queues.worker.finish();
  queues.worker.requeueAll();
  const jobs = [...queues.running('interactive'), ...queues.running('batch')];
  t.deepEqual(
    jobs.map(({ signal }) => signal.reason),
    ['shutdown', 'shutdown'],
  );
  for (const job of jobs) job.end({ outcome: 'requeue', job: jobFor('svc:reply:test', {}) });
  await finished;
  t.deepEqual([await queues.waiting('interactive'), await queues.waiting('batch')], [1, 1]);
});

test('a worker that is asked to stop takes no job while its wait for jobs ends', async (t) => {
  const served = openServedQueues(t, given);
  const queue = served.queue(modelQueue(served.models[0] ?? '', 'interactive'));
  await queue.add(jobName, jobFor('svc:reply:test', {}), { jobId: 'job_1' });
  let hasSlot = false;
  const processJob = async () => ({ outcome: 'done' }) as const;
  const work = { processJob, failLost: async () => {} };
  const worker = served.serve({
    work: { interactive: work, batch: work },
    slots: {
      ...slotsForAll,
      hasSlot: () => hasSlot,
      reserve: () => (hasSlot ? slotsForAll.reserve('', 'interactive') : { outcome: 'full' }),
    },
    // Redis does not answer, so the wait for jobs ends at its own time limit.
    reader: { bzpopmin: () => new Promise(() => {}), disconnect() {} } as unknown as Redis, // only this is called
  });
  const finished = worker.finish();
  hasSlot = true;
  worker.slotsChanged();
  await finished;
  t.is(await queue.getJobCountByTypes('waiting', 'prioritized'), 1);
  t.is((await queue.getJob('job_1'))?.attemptsStarted, 0);
});

test('each model has its own concurrency', async (t) => {
  const queues = openModels(t, { models: 3, concurrency: 2, batchConcurrency: 1 });
  await queues.add('interactive', 5, {}, 0);
  await queues.add('interactive', 5, {}, 1);
  await queues.add('interactive', 1, {}, 2);
  await queues.until(() => queues.running('interactive').length === 5);
  t.is(await queues.waiting('interactive'), 3);
});

test('jobs in a paused queue stay there, and run when it is resumed', async (t) => {
  const queues = openModels(t, { concurrency: 4, batchConcurrency: 2 });
  const queue = queues.queueOf('interactive');
  await queue.pause();
  await queues.add('interactive', 2);
  await queues.add('batch', 1);
  await queues.until(() => queues.running('batch').length === 1);
  t.is(queues.running('interactive').length, 0);
  await queue.resume();
  await queues.until(() => queues.running('interactive').length === 2);
});

/** A dead worker: it has taken a job, and its lock expires. */
async function leaveStalled(t: ExecutionContext, queue: Queue, model: string): Promise<void> {
  const id = { name: queue.name, prefix: queue.opts.prefix ?? '' };
  const dead = new Worker(queue.name, null, { ...workerOptions(id, given.redis), lockDuration: 1 });
  t.teardown(() => dead.close());
  const job = jobFor('svc:reply:test', { model });
  await queue.add(jobName, job, { jobId: job.requestId });
  await dead.getNextJob('dead', { block: false });
}

test('a delayed job is run, also if the worker that took the marker with its time has stopped', async (t) => {
  t.timeout(60_000);
  const served = openServedQueues(t, given);
  const queue = served.queue(modelQueue(served.models[0] ?? '', 'batch'));
  const [reader, another] = [given.connect(), given.connect()];
  const [readerId, anotherId] = [await reader.client('ID'), await another.client('ID')];
  const ran = Promise.withResolvers<void>();
  const processJob = async () => {
    ran.resolve();
    return { outcome: 'done' } as const;
  };
  const work = { processJob, failLost: async () => {} };
  served.serve({ work: { interactive: work, batch: work }, reader });
  const taken = another.bzpopmin(queue.toKey('marker'), 0);
  // Redis gives it to the client that has waited longest.
  while ((await idleSeconds(readerId)) >= (await idleSeconds(anotherId))) await sleep(50);
  await queue.add(jobName, jobFor('svc:reply:test', {}), { jobId: 'put-off', delay: 100 });
  t.truthy(await taken);
  await ran.promise;
});

function only<Model>(models: Readonly<Record<string, Model>>, name: string): Record<string, Model> {
  return Object.fromEntries(Object.entries(models).filter(([each]) => each === name));
}

/** How long a connection has been blocked. */
async function idleSeconds(id: number): Promise<number> {
  const list = (await given.redis.client('LIST')) as string;
  const line = list.split('\n').find((each) => each.startsWith(`id=${id} `));
  return Number(/ idle=(\d+) /.exec(line ?? '')?.[1]);
}

test('models come and go while a worker runs: a job of a model that has gone ends normally', async (t) => {
  const served = openServedQueues(t, given, 2);
  const [first = '', second = ''] = served.models;
  const started: string[] = [];
  const jobs = new EventEmitter();
  const end = Promise.withResolvers<void>();
  const work = {
    async processJob({ data }: { data: unknown }) {
      const { model } = inferenceJobSchema.parse(data);
      started.push(model);
      jobs.emit(model);
      if (model === first) await end.promise;
      return { outcome: 'done' } as const;
    },
    failLost: async () => {},
  };
  const { replace, running } = served.serve({ work: { interactive: work, batch: work } });
  const add = async (model: string) => {
    const begun = once(jobs, model, { signal: AbortSignal.timeout(30_000) });
    await served
      .queue(modelQueue(model, 'interactive'))
      .add(jobName, jobFor('svc:reply:test', { model }), { priority: 1 });
    return begun;
  };
  replace(only(served.settings, first));
  await add(first);
  replace(only(served.settings, second));
  await add(second);
  t.is(running(), 1);
  await served.queue(modelQueue(first, 'interactive')).add(jobName, jobFor('svc:reply:test', { model: first }));
  end.resolve();
  while (running() > 0) await sleep(5);
  await add(second);
  t.deepEqual(started, [first, second, second]);
  const again = once(jobs, first, { signal: AbortSignal.timeout(30_000) });
  replace(served.settings);
  await again;
});

test('models come and go while jobs wait: none is taken that has no backend here', async (t) => {
  const served = openServedQueues(t, given, 2);
  const [first = '', second = ''] = served.models;
  const jobs = new EventEmitter();
  const ends: (() => void)[] = [];
  const work = {
    async processJob({ data, reservation }: Parameters<ProcessJob>[0]) {
      const slot = reservation?.use('user:a');
      const end = Promise.withResolvers<void>();
      ends.push(end.resolve);
      jobs.emit('started', inferenceJobSchema.parse(data).model, slot?.name);
      await end.promise;
      slot?.end({ outcome: 'answered' });
      return { outcome: 'done' } as const;
    },
    failLost: async () => {},
  };
  const { replace, running } = served.serve({ work: { interactive: work, batch: work }, ofBackends: true });
  const started = async () => (await once(jobs, 'started', { signal: AbortSignal.timeout(30_000) })) as string[];
  t.teardown(() => {
    for (const end of ends) end();
  });
  const queueOf = (model: string) => served.queue(modelQueue(model, 'interactive'));
  const add = (model: string) => queueOf(model).add(jobName, jobFor('svc:reply:test', { model }), { priority: 1 });
  replace(only(served.settings, first));
  const one = started();
  await add(first);
  t.deepEqual(await one, [first, 'a']);
  for (const model of [first, first, second]) await add(model);
  replace(only(served.settings, second));
  t.is(running(), 1);
  const other = started();
  ends.shift()?.();
  t.deepEqual(await other, [second, 'a'], 'as soon as the backend has room');
  t.is(running(), 1);
  t.is(await queueOf(first).getJobCountByTypes('waiting', 'prioritized'), 2);
  const again = started();
  replace(served.settings);
  ends.shift()?.();
  t.deepEqual(await again, [first, 'a']);
  ends.shift()?.();
});

test('a worker that runs no lines of batches still requeues those of a dead worker', async (t) => {
  t.timeout(60_000);
  const served = openServedQueues(t, given);
  const [model = ''] = served.models;
  const queue = served.queue(modelQueue(model, 'batch'));
  await leaveStalled(t, queue, model);
  const work = { processJob: async () => ({ outcome: 'done' }) as const, failLost: async () => {} };
  served.serve({ work: { interactive: work, batch: work }, batchConcurrency: 0 });
  while ((await queue.getWaitingCount()) === 0) await sleep(20);
  t.is(await queue.getActiveCount(), 0);
});

test('the jobs of a dead worker are run by another, as their next run', async (t) => {
  t.timeout(60_000);
  const served = openServedQueues(t, given);
  const [model = ''] = served.models;
  const queue = served.queue(modelQueue(model, 'interactive'));
  const ended: unknown[] = [];
  const takings: number[] = [];
  const work = {
    processJob: async ({ taken }: { taken: number }) => {
      takings.push(taken);
      return { outcome: 'done' } as const;
    },
    failLost: async (job: unknown) => void ended.push(job),
  };
  await leaveStalled(t, queue, model);
  served.serve({ work: { interactive: work, batch: work } });
  while (takings.length === 0) await sleep(20);
  t.deepEqual(takings, [2]);
  while ((await served.jobs()) > 0) await sleep(20);
  t.deepEqual(ended, []);
});
