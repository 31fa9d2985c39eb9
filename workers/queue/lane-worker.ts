import { createRedisBackend, Job, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { lockMs, type QueueId, renewLocksEveryMs, workerOptions } from '../../shared/jobs/queues.ts';
import type { Lane } from '../../shared/lane.ts';
import type { Log } from '../../shared/process/log.ts';
import { repeatWhile } from '../../shared/process/repeat-while.ts';
import type { Outcome, ProcessJob, StopReason } from '../answers/run.ts';
import type { Reservation } from '../backends/reservation.ts';
import type { BodiesHeld } from './bodies-held.ts';
import type { QueueMetrics } from './queue-metrics.ts';

/** What is done with the jobs of a lane. */
export type LaneWork = {
  processJob: ProcessJob;
  /** Ends a job that will not be run again: `isStalled` if its workers kept dying, else it failed by a fault of ours. */
  endLost: (job: { data: unknown; taken: number; isStalled: boolean }) => Promise<void>;
  /** Called with jobs that are back in their queue because their workers have died. Never fails. */
  onRecovered?: (data: readonly unknown[]) => Promise<void>;
};

/** A job that this worker has taken, with the lock that proves it. */
export type LockedJob = { job: Job; token: string };

/** One queue, as a worker sees it: it takes jobs, keeps their locks, runs them, and ends them in the queue. */
export interface LaneWorker extends AsyncDisposable {
  /** Where BullMQ notes that there may be a job (`BZPOPMIN`). */
  markerKey: string;
  /** There while workers have jobs of this queue in hand, and while jobs wait or were put off. */
  activeKey: string;
  waitingKeys: readonly string[];
  /** The next job; else when the next one that was put off is due, in milliseconds since 1970, or 0 if there is none. */
  take(): Promise<LockedJob | { nextAt: number }>;
  /** Runs a job to its end in the queue; never fails. What was reserved for it is released if it calls no backend. */
  run(taken: LockedJob, reservation: Reservation | undefined): Promise<void>;
  /** Aborts one job, if this worker has it. */
  cancel(requestId: string, reason: StopReason): void;
  /** Aborts every job in hand: those that have sent nothing go back to the queue. */
  requeueAll(): void;
  /** Jobs in hand. */
  running(): number;
  /** Has a worker with room look for jobs. */
  setMarker(): void;
  /** Puts jobs of dead workers back into the queue. */
  recover(): Promise<void>;
}

export function createLaneWorker(
  deps: LaneWork & {
    queue: QueueId;
    labels: { pool: string; lane: Lane };
    connection: Redis;
    bodies: Pick<BodiesHeld, 'hold'>;
    /** Aborted when the process is asked to end: a job that arrives after that goes back at once. */
    shutdown: AbortSignal;
    metrics: Pick<QueueMetrics, 'running'>;
    log: Log;
  },
): LaneWorker {
  const { queue, labels, connection, bodies, shutdown, metrics, log } = deps;
  // BullMQ's own loop takes jobs without asking whether a backend has room, and needs a blocking connection for each queue.
  const worker = new Worker(queue.name, null, workerOptions(queue, connection), (name, options) =>
    createRedisBackend(name, options),
  );
  worker.on('error', (error) => log.debug({ err: error, queue: queue.name }, 'a queue reported an error'));
  const markerKey = worker.toKey('marker');
  const inHand = new Map<string, { token: string; stop: AbortController }>();
  let takings = 0;

  async function take(): Promise<LockedJob | { nextAt: number }> {
    const token = `${worker.id}:${takings++}`;
    const [data, id, , nextAt] = await worker.backend.moveToActive(token);
    if (!data) return { nextAt: Number(nextAt) || 0 };
    return { job: Job.fromJSON(worker, data, id), token };
  }

  async function run(taken: LockedJob, reservation: Reservation | undefined): Promise<void> {
    const id = String(taken.job.id);
    const stop = new AbortController();
    inHand.set(id, { token: taken.token, stop });
    renewing.begin();
    metrics.running.inc(labels);
    using _body = bodies.hold(bodyLength(taken.job));
    try {
      const outcome = await process(taken, { signal: stop.signal, reservation });
      reservation?.release();
      // Its lock is not renewed any more: the worker that finds it expired runs the job again, and learns that it was ended.
      letGo(id, stop);
      await end(taken, outcome);
    } catch (error) {
      log.warn({ err: error, requestId: id, queue: queue.name }, 'a job was not ended in its queue');
    } finally {
      reservation?.release();
      letGo(id, stop);
      metrics.running.dec(labels);
    }
  }

  /** If its lock was lost, this worker may have taken the job again meanwhile. */
  function letGo(id: string, stop: AbortController): void {
    if (inHand.get(id)?.stop === stop) inHand.delete(id);
  }

  async function process({ job }: LockedJob, given: { signal: AbortSignal; reservation: Reservation | undefined }) {
    if (shutdown.aborted) return 'requeue';
    const taken = job.attemptsStarted;
    try {
      if (job.deferredFailure === undefined) return await deps.processJob({ data: job.data, taken, ...given });
      log.error({ requestId: job.id, queue: queue.name }, 'a job is given up: its workers kept dying');
    } catch (error) {
      log.error({ err: error, requestId: job.id }, 'a job failed');
    }
    const lost = { data: job.data, taken: taken + 1, isStalled: job.deferredFailure !== undefined };
    await deps.endLost(lost).catch((cause: unknown) => log.error({ err: cause }, 'a lost job was not ended'));
    return { outcome: 'done' } as const;
  }

  async function end({ job, token }: LockedJob, outcome: Outcome | 'requeue'): Promise<void> {
    if (outcome === 'requeue') return requeue({ job, token });
    if (outcome.outcome === 'done') {
      await job.moveToCompleted(null, token, false);
      return;
    }
    await job.updateData(outcome.job);
    if (outcome.outcome === 'requeue') return requeue({ job, token });
    // Others of its queue run meanwhile: in front of the queue it would hold them up.
    await job.moveToDelayed(Date.now() + outcome.pauseMs * (0.5 + Math.random()), token);
  }

  async function requeue({ job, token }: LockedJob): Promise<void> {
    await job.moveToWait(token);
    // BullMQ sets no marker for a job with a priority that comes back.
    await setMarker();
  }

  const setMarker = () => connection.zadd(markerKey, 0, '0');

  async function renewLocks(): Promise<void> {
    const renewed = [...inHand];
    const tokens = renewed.map(([, { token }]) => token);
    const ids = renewed.map(([id]) => id);
    const failed = await worker.extendJobLocks(ids, tokens, lockMs);
    // One that has just ended is not this worker's any more, and was renewed a moment too late.
    const lost = failed.filter((id) => inHand.get(id)?.token === tokens[ids.indexOf(id)]);
    if (lost.length > 0) log.warn({ requests: lost, queue: queue.name }, 'the locks of jobs were lost');
    for (const id of lost) cancel(id, 'lock lost');
  }

  function cancel(requestId: string, reason: StopReason): void {
    inHand.get(requestId)?.stop.abort(reason);
  }

  const renewing = repeatWhile({
    everyMs: renewLocksEveryMs,
    work: renewLocks,
    isNeeded: () => inHand.size > 0,
    onFailure: (error) => log.debug({ err: error, queue: queue.name }, 'locks of jobs could not be renewed'),
  });

  return {
    markerKey,
    activeKey: worker.toKey('active'),
    waitingKeys: ['wait', 'prioritized', 'delayed'].map((name) => worker.toKey(name)),
    take,
    run,
    cancel,
    requeueAll() {
      for (const { stop } of inHand.values()) stop.abort('shutdown' satisfies StopReason);
    },
    running: () => inHand.size,
    setMarker() {
      setMarker().catch((error: unknown) => log.debug({ err: error, queue: queue.name }, 'a marker was not set'));
    },
    async recover() {
      const ids = await worker.backend.moveStalledJobsToWait();
      if (deps.onRecovered === undefined || ids.length === 0) return;
      const jobs = await Promise.all(ids.map((id) => Job.fromId(worker, id)));
      await deps.onRecovered(jobs.flatMap((job) => (job === undefined ? [] : [job.data])));
    },
    async [Symbol.asyncDispose]() {
      renewing[Symbol.dispose]();
      await worker.close();
    },
  };
}

/** Jobs of another release may have another shape; the run refuses what cannot be read. */
function bodyLength({ data }: Job): number {
  const { body } = data as { body?: unknown };
  return typeof body === 'string' ? Buffer.byteLength(body) : 0;
}
