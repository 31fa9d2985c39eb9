import { randomUUID } from 'node:crypto';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import type { Queue } from 'bullmq';
import { Registry } from 'prom-client';
import { aborted } from '../../../shared/concurrency/shutdown.ts';
import { inferenceJobSchema } from '../../../shared/jobs/inference-job.ts';
import { jobName, modelQueue } from '../../../shared/jobs/queues.ts';
import type { ProcessJob } from '../../../workers/failover/run.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import {
  createHeldPayloads,
  createLaneWorker,
  type LaneWork,
  type LaneWorker,
} from '../../../workers/queue/lane-worker.ts';
import { createReplyFrames } from '../../../workers/replies/send-reply.ts';
import { createFailLostRequest } from '../../../workers/requests/process-request.ts';
import { answerFor } from '../../stack/model-server.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { contentsOf } from '../../support/redis-contents.ts';
import { openServedQueues } from '../../support/served-queues.ts';
import { watchRedis } from '../../support/watch-redis.ts';
import { kindsOf, messages, openWorkerSide, textOf, type WorkerSide } from '../../support/worker-side.ts';

let given: RedisDatabase;

test.before(async () => {
  given = await openRedisDatabase();
});

test.after.always(() => given?.[Symbol.asyncDispose]());

/** The queue of a model that only this test uses, and workers of it. */
function openQueue(t: ExecutionContext, side: WorkerSide) {
  const served = openServedQueues(t, given);
  const [model = ''] = served.models;
  const queue = served.queue(modelQueue(model, 'interactive'));
  const failLost = createFailLostRequest({ ...side, replyFrames: createReplyFrames({ redis: given.redis }) });
  const slots = {
    reserve: () => side.slots.reserve('medium-chat', 'interactive'),
    hasSlot: () => true,
    waiting: () => 0,
  };

  function startWorker({ processRequest = side.processRequest, shutdown = new AbortController() } = {}) {
    const work = { processJob: processRequest, failLost };
    return served.serve({ work: { interactive: work, batch: work }, slots, shutdown });
  }

  async function add(given?: { requestId?: string }): Promise<string> {
    const job = given ?? (await side.admit());
    const jobId = job.requestId ?? randomUUID();
    await queue.add(jobName, job, { jobId, priority: 10 });
    return jobId;
  }

  async function untilEmpty(): Promise<void> {
    while ((await served.jobs()) > 0) await pause();
  }

  return { startWorker, add, queue, untilEmpty, lines: served.lines };
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5));
}

const expected = answerFor(messages);

for (const stream of [false, true]) {
  test.serial(`a job is answered, and leaves nothing in Redis, ${stream ? 'streamed' : 'whole'}`, async (t) => {
    await using side = await openWorkerSide(given.redis);
    const { startWorker, add, untilEmpty } = openQueue(t, side);
    await add(await side.admit({ stream }));
    t.true((await contentsOf(given.redis)).includes('東京'), 'while it waits, its prompt is in Redis');
    startWorker();
    await side.stream.reply(({ kind }) => kind === 'end');
    await untilEmpty();
    t.is(textOf(await side.stream.replies()), expected);
    await given.redis.del(side.stream.key);
    t.notRegex(await contentsOf(given.redis), /東京|Grüße|choices/);
  });
}

test('cancelling aborts one job by its id, and no other job', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { startWorker, add, untilEmpty } = openQueue(t, side);
  const worker = startWorker();
  for (const server of side.servers) server.fail({ hang: true });
  const states = () => side.servers.flatMap((server) => server.calls().map(({ state }) => state));
  const [left, kept] = [await add(), await add()];
  await side.stream.reply(({ request, kind }) => request === left && kind === 'started');
  await side.stream.reply(({ request, kind }) => request === kept && kind === 'started');
  while (states().length < 2) await pause();

  worker.cancel('req_of_somebody_else', 'cancelled');
  worker.cancel(left, 'cancelled');
  while (!states().includes('aborted')) await pause();
  t.deepEqual(states().toSorted(), ['aborted', 'running']);
  worker.cancel(kept, 'cancelled');
  await untilEmpty();
  t.deepEqual(kindsOf(await side.stream.replies()), ['error', 'error']);
});

test('a worker that stops requeues jobs that have sent nothing, and another worker runs them', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { startWorker, add, untilEmpty, lines } = openQueue(t, side);
  const first = startWorker();
  side.servers[0].fail({ hang: true, times: 1 });
  await add();
  await side.servers[0].waitForCall(() => true);
  first.shutdown.abort();
  const finished = first.finish();
  first.requeueAll();
  await finished;

  startWorker();
  await side.stream.reply(({ kind }) => kind === 'end');
  await untilEmpty();
  const replies = await side.stream.replies();
  const end = replies.find(({ kind }) => kind === 'end'); // the start of the first run may be reported after it
  t.is(end?.run, 2);
  t.deepEqual(kindsOf(replies), ['end']);
  t.is(textOf(replies), expected);
  t.deepEqual(lines, [], 'there was no error in the queue');
});

test('a worker that is asked to stop finishes its jobs, and takes no more', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { startWorker, add, queue } = openQueue(t, side);
  const worker = startWorker();
  side.servers[0].fail({ latencyMs: 300, times: 1 });
  const held = await add();
  await side.servers[0].waitForCall(() => true);
  worker.shutdown.abort();
  const finished = worker.finish();
  await add();
  await finished;
  const replies = await side.stream.replies();
  t.like(replies.at(-1), { request: held, kind: 'end' });
  t.deepEqual(kindsOf(replies), ['end']);
  t.is((await queue.getJobCounts()).prioritized, 1);
});

test('each taking of a job has a higher number than the one before', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { startWorker, add, untilEmpty } = openQueue(t, side);
  const takings: number[] = [];
  const processRequest: ProcessJob = async (given) => {
    takings.push(given.taken);
    if (takings.length < 3) return { outcome: 'requeue', job: inferenceJobSchema.parse(given.data) };
    return side.processRequest(given);
  };
  startWorker({ processRequest });
  await add();
  await side.stream.reply(({ kind }) => kind === 'end');
  await untilEmpty();
  t.deepEqual(takings, [1, 2, 3]);
});

/** A worker of one queue, whose jobs the test takes. */
function openLaneWorker(
  t: ExecutionContext,
  { name, opts }: Queue,
  work: Partial<LaneWork> = {},
  { log } = recordedLog(),
): LaneWorker {
  const worker = createLaneWorker({
    queue: { name, prefix: opts.prefix ?? '' },
    ...{ labels: { pool: 'default', lane: 'interactive' }, connection: given.redis, log },
    payloads: createHeldPayloads({ bodyBytesMax: 1 }),
    shutdown: new AbortController().signal,
    metrics: createWorkerMetrics(new Registry()),
    processJob: async () => ({ outcome: 'done' }),
    failLost: async () => {},
    ...work,
  });
  t.teardown(() => worker[Symbol.asyncDispose]());
  return worker;
}

test('a job that this worker has taken again stays locked when its earlier run ends', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { queue, add } = openQueue(t, side);
  const runs: { end: () => void; signal: AbortSignal }[] = [];
  const processJob: ProcessJob = ({ signal }) =>
    new Promise((resolve) => runs.push({ signal, end: () => resolve({ outcome: 'done' }) }));
  const worker = openLaneWorker(t, queue, { processJob });
  const requestId = await add();
  const taken = await worker.take();
  if (!('job' in taken)) return t.fail();
  const running = [worker.run(taken, undefined), worker.run({ ...taken, token: 'another' }, undefined)];
  const [earlier, later] = runs;
  earlier?.end();
  await running[0];
  t.is(worker.running(), 1);
  worker.cancel(requestId, 'cancelled');
  t.is(later?.signal.reason, 'cancelled');
  later?.end();
  await running[1];
  t.is(worker.running(), 0);
});

test('jobs of a dead worker are put back into their queue, and reported', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { queue, add } = openQueue(t, side);
  const reported: unknown[] = [];
  const worker = openLaneWorker(t, queue, { onRecovered: async (jobs) => void reported.push(...jobs) });
  const requestId = await add();
  const taken = await worker.take();
  if (!('job' in taken)) return t.fail();
  await given.redis.del(queue.toKey(`${requestId}:lock`));
  // A job counts as stalled only when it was found twice without a lock.
  for (const expected of [0, 1]) {
    await worker.recover();
    await given.redis.del(queue.toKey('stalled-check'));
    t.is(reported.length, expected);
  }
  t.like(reported[0], { requestId, account: side.limits.account });
  t.is((await queue.getJobCounts()).waiting, 1);
});

test('a job that arrives during a shutdown is requeued for another worker', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { startWorker, add, queue, lines } = openQueue(t, side);
  const shutdown = new AbortController();
  shutdown.abort();
  let seen = 0;
  const processRequest: ProcessJob = async () => {
    seen += 1;
    return { outcome: 'done' };
  };
  const ending = startWorker({ shutdown, processRequest });
  const id = await add();
  while (((await queue.getJob(id))?.attemptsStarted ?? 0) === 0) await pause();
  await ending.finish();
  startWorker();
  await side.stream.reply(({ kind }) => kind === 'end');
  t.is(seen, 0);
  t.deepEqual(lines, []);
  t.is(textOf(await side.stream.replies()), expected);
});

test('the client of a job that fails gets one error, and the worker continues', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { startWorker, add, untilEmpty, lines } = openQueue(t, side);
  let failing = true;
  const processRequest: ProcessJob = async (execution) => {
    if (!failing) return side.processRequest(execution);
    throw new Error('the disk is full');
  };
  startWorker({ processRequest });
  const lost = await add();
  await add({}); // not a job that can be answered
  const reply = await side.stream.reply(({ kind }) => kind === 'error');
  t.like(reply, { request: lost, run: 1, sequence: 0, data: { code: 'INTERNAL_ERROR' } });
  t.false(JSON.stringify(reply).includes('disk'));
  while (!lines.some(({ message }) => message === 'a lost job was not ended')) await pause();

  failing = false;
  await add();
  await side.stream.reply(({ kind }) => kind === 'end');
  await untilEmpty();
  t.deepEqual(kindsOf(await side.stream.replies()), ['error', 'end']);
});

test('a job is run with its own signal, its number of takings, and its data as queued', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { startWorker, add } = openQueue(t, side);
  const executions: Parameters<ProcessJob>[0][] = [];
  const worker = startWorker({
    processRequest: async (execution) => {
      executions.push(execution);
      await aborted(execution.signal);
      return { outcome: 'done' };
    },
  });
  const jobs = [await side.admit(), await side.admit()];
  for (const job of jobs) await add(job);
  while (executions.length < 2) await pause();
  worker.cancel(jobs[0]?.requestId ?? '', 'cancelled');
  worker.cancel(jobs[1]?.requestId ?? '', 'lock lost');
  await worker.finish();
  t.deepEqual(
    executions.map(({ data }) => data),
    jobs,
  );
  t.deepEqual(
    executions.map(({ signal }) => signal.reason),
    ['cancelled', 'lock lost'],
  );
  t.deepEqual(
    executions.map(({ taken }) => taken),
    [1, 1],
  );
});

test('completed jobs are removed together, and counted for the dashboard in all and by minute', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { queue, add } = openQueue(t, side);
  const worker = openLaneWorker(t, queue);
  await using watch = await watchRedis(given.url);
  const [countsKey, minutesKey] = [queue.toKey('metrics:completed'), queue.toKey('metrics:completed:data')];
  const endJobs = async (count: number) => {
    for (let jobs = 0; jobs < count; jobs++) await add();
    const taken = await Promise.all(Array.from({ length: count }, () => worker.take()));
    const run = () => Promise.all(taken.map((one) => ('job' in one ? worker.run(one, undefined) : t.fail())));
    const commands = await watch.during(run);
    t.is(commands.filter((command) => command.includes(countsKey)).length, 1, 'one script for all');
  };
  await endJobs(3);
  t.is((await queue.getMetrics('completed', 0, 0)).meta.count, 3);
  t.deepEqual(await given.redis.lrange(minutesKey, 0, -1), [], 'the minute is not over');

  const before = Date.now() - 2 * 60_000;
  await given.redis.hset(countsKey, 'prevTS', String(before));
  await endJobs(2);
  const { meta, data } = await queue.getMetrics('completed');
  t.like(meta, { count: 5, prevCount: 3 });
  t.true(Math.abs(meta.prevTS - Date.now()) < 60_000);
  const minutes = Math.floor(meta.prevTS / 60_000) - Math.floor(before / 60_000);
  t.deepEqual(data.map(Number), [...new Array(minutes - 1).fill(0), 3]);

  await given.redis.hset(countsKey, 'prevTS', String(Date.now() - 3 * 86_400_000));
  await endJobs(1);
  t.is(await given.redis.llen(minutesKey), 1_440, 'those of the last day');
  const left = await given.redis.keys(queue.toKey('*'));
  const kept = ['events', 'id', 'meta', 'metrics:completed', 'metrics:completed:data'];
  t.deepEqual(left.toSorted(), kept.map((name) => queue.toKey(name)).toSorted());
});

test('a job whose lock was lost is not removed, and others that end with it are', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { queue, add } = openQueue(t, side);
  const recorded = recordedLog();
  const worker = openLaneWorker(t, queue, {}, recorded);
  const [lost, other] = [await add(), await add()];
  const taken = [await worker.take(), await worker.take()];
  await given.redis.set(queue.toKey(`${lost}:lock`), 'of another worker');
  await Promise.all(taken.map((one) => ('job' in one ? worker.run(one, undefined) : t.fail())));
  t.deepEqual(await given.redis.lrange(queue.toKey('active'), 0, -1), [lost]);
  t.is(await given.redis.get(queue.toKey(`${lost}:lock`)), 'of another worker');
  t.is(await given.redis.exists(queue.toKey(lost), queue.toKey(other)), 1);
  t.is(recorded.lines.length, 1);
  t.like(recorded.lines[0], { message: 'a job was not ended in its queue', fields: { requestId: lost } });
});

test('the marker of a queue goes with its last job, and stays while one is delayed', async (t) => {
  await using side = await openWorkerSide(given.redis);
  const { queue, add } = openQueue(t, side);
  const worker = openLaneWorker(t, queue);
  const marker = () => given.redis.zrange(queue.toKey('marker'), '0', '-1');
  await add();
  await add();
  t.like(await worker.take(), { more: true });
  t.deepEqual(await marker(), ['0'], 'another worker looks for the second job');
  t.like(await worker.take(), { more: false });
  t.deepEqual(await marker(), []);
  await queue.add(jobName, {}, { jobId: randomUUID(), delay: 60_000 });
  await add();
  t.like(await worker.take(), { more: false });
  t.deepEqual(await marker(), ['0', '1'], 'a worker has to learn when the delayed one is due');
});
