import { createRedisBackend, Job, Worker } from 'bullmq';
import type { Gauge } from 'prom-client';
import { repeatWhile } from '../../shared/concurrency/repeat-while.ts';
import { lockMs, type QueueId, renewLocksEveryMs, workerOptions } from '../../shared/jobs/queues.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import type { Lane } from '../../shared/redis/keys.ts';
import type { Reservation } from '../backends/reservation.ts';
import type { JobOutcome, ProcessJob, StopReason, TakenJob } from '../failover/run.ts';
import { createClearMarker, createEndJob } from './queue-scripts.ts';

/** The work on the jobs of a lane. */
export type LaneWork = {
  processJob: ProcessJob;
  /** Ends a job that will not run again. `isStalled`: its workers kept dying; else it failed because of an internal error. */
  failLost: (job: { data: unknown; taken: number; isStalled: boolean }) => Promise<void>;
  /** Called with jobs that are back in their queue because their workers have died. Never fails. */
  onRecovered?: (data: readonly unknown[]) => Promise<void>;
};

/** A job that this worker has taken, with the token of its lock. `more`: further jobs wait in its queue, as far as is known. */
export type LockedJob = { job: QueuedJob; token: string; more: boolean };

/** `taken`: how often it was taken, including this time. `isStalled`: its workers kept dying. `open` adds BullMQ's operations. */
type QueuedJob = { id: string; data: unknown; taken: number; isStalled: boolean; open: () => Job };

/** A worker of one queue: takes jobs, renews their locks, runs them, and ends them in the queue. */
export interface LaneWorker extends AsyncDisposable {
  /** Where BullMQ notes that there may be a job (`BZPOPMIN`). */
  markerKey: string;
  /** Exists while jobs of this queue are in progress. */
  activeKey: string;
  /** They exist while jobs wait or are delayed. */
  waitingKeys: readonly string[];
  /** The next job. If there is none: when the next delayed job is due, in milliseconds since 1970, or 0. */
  take(): Promise<LockedJob | { nextAt: number }>;
  /** Runs a job to its end in the queue. Never fails. Releases the reservation if the job calls no backend. */
  run(taken: LockedJob, reservation: Reservation | undefined): Promise<void>;
  /** Aborts one job, if this worker has it. */
  cancel(requestId: string, reason: StopReason): void;
  /** Aborts all jobs in progress. Those that have sent nothing go back to the queue. */
  requeueAll(): void;
  /** The number of jobs in progress. */
  running(): number;
  /** Makes a worker with room look for jobs. */
  setMarker(): void;
  /** Puts jobs of dead workers back into the queue. */
  recover(): Promise<void>;
}

type LaneWorkerDeps = LaneWork & {
  queue: QueueId;
  labels: { pool: string; lane: Lane };
  connection: Redis;
  payloads: Pick<HeldPayloads, 'hold'>;
  /** Aborted when the process is asked to stop. A job that arrives later is requeued at once. */
  shutdown: AbortSignal;
  metrics: { running: Gauge<'pool' | 'lane'> };
  log: Log;
};

export function createLaneWorker(deps: LaneWorkerDeps): LaneWorker {
  const { labels, connection, payloads, metrics, log } = deps;
  const queue = deps.queue.name;
  const worker = openWorker(deps);
  const markerKey = worker.toKey('marker');
  const setMarker = () => connection.zadd(markerKey, 0, '0');
  const clearMarker = createClearMarker({ worker, connection, log });
  const endJob = createEndJob({ worker, connection });
  const locks = createJobLocks({ extend: (ids, tokens) => worker.extendJobLocks(ids, tokens, lockMs), queue, log });
  const process = createProcess(deps);
  let takings = 0;

  async function take(): Promise<LockedJob | { nextAt: number }> {
    const token = `${worker.id}:${takings++}`;
    const [[job, id, , nextAt], more] = await Promise.all([worker.backend.moveToActive(token), clearMarker()]);
    if (!job) return { nextAt: Number(nextAt) || 0 };
    return { job: readJob(worker, job, id), token, more };
  }

  async function run(taken: LockedJob, reservation: Reservation | undefined): Promise<void> {
    const { id } = taken.job;
    const lock = locks.hold(id, taken.token);
    metrics.running.inc(labels);
    using _payload = payloads.hold(payloadBytes(taken.job));
    try {
      const outcome = await process(taken.job, { signal: lock.signal, reservation });
      reservation?.release();
      // If the job cannot be ended here, its lock expires: another worker runs it again, and finds that it was ended.
      lock.release();
      if (outcome !== 'requeue' && outcome.outcome === 'done') await endJob(id, taken.token);
      else await putBack(taken, outcome, setMarker);
    } catch (error) {
      log.warn({ err: error, requestId: id, queue }, 'a job was not ended in its queue');
    } finally {
      reservation?.release();
      lock.release();
      metrics.running.dec(labels);
    }
  }

  return {
    markerKey,
    take,
    run,
    cancel: locks.cancel,
    running: locks.count,
    activeKey: worker.toKey('active'),
    waitingKeys: ['wait', 'prioritized', 'delayed'].map((name) => worker.toKey(name)),
    requeueAll: () => locks.cancelAll('shutdown'),
    setMarker() {
      setMarker().catch((error: unknown) => log.debug({ err: error, queue }, 'a marker was not set'));
    },
    recover: () => recoverStalled(worker, deps.onRecovered),
    async [Symbol.asyncDispose]() {
      locks[Symbol.dispose]();
      await worker.close();
    },
  };
}

/**
 * BullMQ's own loop does not run: it ignores whether a backend has room, and needs a blocking connection for each queue
 * (decisions.md#our-own-loop-for-taking-jobs).
 */
function openWorker({ queue, connection, log }: LaneWorkerDeps): Worker {
  const worker = new Worker(queue.name, null, workerOptions(queue, connection), (name, options) =>
    createRedisBackend(name, options),
  );
  worker.on('error', (error) => log.debug({ err: error, queue: queue.name }, 'a queue reported an error'));
  return worker;
}

type JobJson = Parameters<typeof Job.fromJSON>[1];

/** BullMQ's own object costs a request several times as much. */
function readJob(worker: Worker, json: JobJson, id = ''): QueuedJob {
  const { data, ...rest } = json;
  const { attemptsStarted = 0, deferredFailure } = rest;
  return {
    id,
    data: JSON.parse(data),
    taken: attemptsStarted,
    isStalled: deferredFailure !== undefined,
    // Without the text of its data, which nothing reads again: a run would hold it beside the data.
    open: () => Job.fromJSON(worker, { ...rest, data: '{}' }, id),
  };
}

/** Runs a job, or ends one that is lost. Never fails. */
function createProcess({ queue, processJob, failLost, shutdown, log }: LaneWorkerDeps) {
  return async function process(
    { id, data, taken, isStalled }: QueuedJob,
    given: Pick<TakenJob, 'signal' | 'reservation'>,
  ): Promise<JobOutcome | 'requeue'> {
    if (shutdown.aborted) return 'requeue';
    try {
      if (!isStalled) return await processJob({ data, taken, ...given });
      log.error({ requestId: id, queue: queue.name }, 'a job is given up: its workers kept dying');
    } catch (error) {
      log.error({ err: error, requestId: id }, 'a job failed');
    }
    const lost = { data, taken: taken + 1, isStalled };
    await failLost(lost).catch((cause: unknown) => log.error({ err: cause }, 'a lost job was not ended'));
    return { outcome: 'done' };
  };
}

type SetMarker = () => Promise<unknown>;

async function putBack(
  { job, token }: Omit<LockedJob, 'more'>,
  ended: Exclude<JobOutcome, { outcome: 'done' }> | 'requeue',
  setMarker: SetMarker,
): Promise<void> {
  const opened = job.open();
  if (ended !== 'requeue') await opened.updateData(ended.job);
  if (ended !== 'requeue' && ended.outcome !== 'requeue') {
    // Other jobs of its queue run meanwhile. In front of the queue, it would block them.
    await opened.moveToDelayed(Date.now() + ended.pauseMs * (0.5 + Math.random()), token);
    return;
  }
  await opened.moveToWait(token);
  // BullMQ sets no marker for a job with a priority that comes back.
  await setMarker();
}

async function recoverStalled(worker: Worker, onRecovered: LaneWork['onRecovered']): Promise<void> {
  const ids = await worker.backend.moveStalledJobsToWait();
  if (onRecovered === undefined || ids.length === 0) return;
  const jobs = await Promise.all(ids.map((id) => Job.fromId(worker, id)));
  await onRecovered(jobs.flatMap((job) => (job === undefined ? [] : [job.data])));
}

/** Jobs of another release may have another shape. The run rejects what it cannot read. */
function payloadBytes({ data }: QueuedJob): number {
  const { payload } = data as { payload?: unknown };
  return typeof payload === 'string' ? Buffer.byteLength(payload) : 0;
}

/** A job whose lock is renewed. */
interface HeldLock {
  /** Aborted with a `StopReason`. */
  signal: AbortSignal;
  /** Stops renewing the lock. Idempotent. */
  release(): void;
}

/** The locks of the jobs of one queue that are in progress in this worker (contract.md#o10-job-locks). */
function createJobLocks(deps: {
  /** Extends the locks of these jobs by their tokens. Returns the ids of those that could not be extended. */
  extend: (ids: string[], tokens: string[]) => Promise<string[]>;
  queue: string;
  log: Pick<Log, 'warn' | 'debug'>;
}) {
  const { extend, queue, log } = deps;
  const held = new Map<string, { token: string; stop: AbortController }>();

  async function renew(): Promise<void> {
    const renewed = [...held];
    const tokens = renewed.map(([, { token }]) => token);
    const ids = renewed.map(([id]) => id);
    const failed = await extend(ids, tokens);
    // A job that has just ended is no longer this worker's. Its renewal only came too late.
    const lost = failed.filter((id) => held.get(id)?.token === tokens[ids.indexOf(id)]);
    if (lost.length > 0) log.warn({ requests: lost, queue }, 'the locks of jobs were lost');
    for (const id of lost) cancel(id, 'lock lost');
  }

  /** Aborts one job, if this worker has it. */
  function cancel(id: string, reason: StopReason): void {
    held.get(id)?.stop.abort(reason);
  }

  const renewing = repeatWhile({
    everyMs: renewLocksEveryMs,
    work: renew,
    isNeeded: () => held.size > 0,
    onFailure: (error) => log.debug({ err: error, queue }, 'locks of jobs could not be renewed'),
  });

  return {
    hold(id: string, token: string): HeldLock {
      const stop = new AbortController();
      held.set(id, { token, stop });
      renewing.begin();
      return {
        signal: stop.signal,
        release() {
          // If the lock was lost, this worker may have taken the job again meanwhile.
          if (held.get(id)?.stop === stop) held.delete(id);
        },
      };
    },
    cancel,
    cancelAll(reason: StopReason): void {
      for (const { stop } of held.values()) stop.abort(reason);
    },
    count: (): number => held.size,
    [Symbol.dispose]: renewing[Symbol.dispose],
  };
}

/** A worker needs 512 MiB of memory in total, and holds more than one copy of a payload while it is read and sent. */
const defaultBytesMax = 134_217_728;

/**
 * Bounds the memory of a process. A worker learns the size of a job only by taking it. So the rest of `bytesMax` is counted in jobs of
 * `bodyBytesMax`. One job may be taken while there is any room, so the bound can be exceeded by one payload.
 */
export function createHeldPayloads({
  bodyBytesMax,
  bytesMax = defaultBytesMax,
}: {
  bodyBytesMax: number;
  bytesMax?: number;
}) {
  let held = 0;
  return {
    /** Counts a payload until it is disposed of. */
    hold(bytes: number): Disposable {
      held += bytes;
      return {
        [Symbol.dispose]() {
          held -= bytes;
        },
      };
    },
    /** How many more jobs may be taken now; 0 if there is no room. */
    furtherJobs: (): number => (held >= bytesMax ? 0 : Math.max(1, Math.floor((bytesMax - held) / bodyBytesMax))),
  };
}

/** The payloads of the jobs in progress in this process. */
export type HeldPayloads = ReturnType<typeof createHeldPayloads>;
