import { DelayedError, type Job, WaitingError, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Lane } from '../shared/lane.ts';
import type { Log } from '../shared/log.ts';
import { queueName, workerOptions } from '../shared/queues.ts';
import type { BodiesInHand } from './bodies-in-hand.ts';
import type { WorkerMetrics } from './metrics.ts';
import type { ProcessJob, StopReason } from './run.ts';

export interface RequestWorker {
  /** Aborts one job, if this worker has it. */
  cancel(requestId: string, reason: StopReason): void;
  /** Takes no further job and resolves when those in hand have ended. */
  finish(): Promise<void>;
  /** Aborts every job in hand: those that have sent nothing go back to the queue. */
  handBackAll(): void;
  /** Jobs in hand. */
  running(): number;
  /** Takes no further job until it is resumed; what it has in hand goes on. Either of no effect in a shutdown. */
  pause(): void;
  resume(): void;
}

export type LaneParts = {
  pool: string;
  lane: Lane;
  connection: Redis;
  concurrency: number;
  bodies: BodiesInHand;
  /** Asked before a job is begun; one that finds no room goes back at once. */
  hasRoom?: () => boolean;
  /** A job has begun or ended. */
  onRunning?: () => void;
  processJob: ProcessJob;
  /** Ends a job that nobody will run again because its workers kept dying. */
  endLost: (job: { data: unknown; taken: number; isStalled: boolean }) => Promise<void>;
  /** Aborted when the process is asked to end: a job that arrives after that goes back at once. */
  shutdown: AbortSignal;
  metrics: WorkerMetrics;
  log: Log;
};

/** The BullMQ worker of one lane of a pool. */
export function startRequestWorker(parts: LaneParts): RequestWorker {
  const { pool, lane, concurrency, bodies, hasRoom = () => true, onRunning = () => {}, shutdown, metrics, log } = parts;
  const name = queueName(pool, lane);
  let running = 0;
  const inHand = new Set<string>();
  let further = 0;
  let isHeldBack = false;

  // BullMQ passes the signal only to a function that declares three parameters.
  async function run(job: Job, token: string | undefined, signal: AbortSignal | undefined): Promise<void> {
    if (shutdown.aborted) return handBack(job, token);
    if (!hasRoom()) {
      holdBack(true); // or the same job would come again at once
      return handBack(job, token);
    }
    if (further === 0) return handBack(job, token); // BullMQ was waiting for it when the lane was paused
    running++;
    if (job.id !== undefined) inHand.add(job.id);
    onRunning();
    metrics.running.inc({ pool, lane });
    using _body = bodies.hold(bodyLength(job));
    try {
      const given = {
        data: job.data,
        taken: job.attemptsStarted,
        signal: signal ?? new AbortController().signal,
      };
      const ended = await parts.processJob(given);
      if (ended.outcome === 'done') return;
      await job.updateData(ended.job);
      await (ended.outcome === 'later' ? putOff(job, token, ended.pauseMs) : handBack(job, token));
    } finally {
      running--;
      if (job.id !== undefined) inHand.delete(job.id);
      onRunning();
      metrics.running.dec({ pool, lane });
    }
  }

  async function handBack(job: Job, token: string | undefined): Promise<never> {
    await job.moveToWait(token);
    // BullMQ wakes nobody for a job with a priority that comes back: idle workers would find it up to five seconds later.
    await parts.connection.zadd(worker.toKey('marker'), 0, '0');
    throw new WaitingError();
  }

  /** Others of its lane run meanwhile: in front of the queue it would hold them up. */
  async function putOff(job: Job, token: string | undefined, pauseMs: number): Promise<never> {
    await job.moveToDelayed(Date.now() + pauseMs * (0.5 + Math.random()), token);
    throw new DelayedError();
  }

  function change(changing: () => Promise<void>): void {
    if (shutdown.aborted) return;
    changing().catch((error: unknown) => log.warn({ err: error, queue: name }, 'a queue was not paused or resumed'));
  }

  /**
   * Pausing rather than a concurrency of what is in hand: BullMQ has none of 0, and only resuming makes it look at once.
   * BullMQ looks for no stalled jobs of this lane meanwhile; the other workers of it do, and this one when it is resumed.
   */
  function steer(): void {
    const isPaused = further === 0 || isHeldBack;
    if (further > 0) worker.concurrency = Math.min(concurrency, running + further);
    if (isPaused !== worker.isPaused()) change(() => (isPaused ? worker.pause(true) : worker.resume()));
  }

  function holdBack(isBack: boolean): void {
    isHeldBack = isBack;
    steer();
  }

  const worker = new Worker(name, run, workerOptions(name, parts.connection, concurrency));
  const unfollow = bodies.follow((jobs) => {
    further = jobs;
    steer();
  });
  worker.on('error', (error) => {
    // Of those it tells below, too.
    if (!error.message.startsWith('could not renew lock'))
      log.warn({ err: error, queue: name }, 'the queue reported an error');
  });
  worker.on('lockRenewalFailed', (jobIds: string[]) => {
    // One that has just been handed back is not this worker's any more, and was renewed a moment too late.
    const lost = jobIds.filter((id) => inHand.has(id));
    if (lost.length > 0) log.warn({ requests: lost, queue: name }, 'the locks of jobs were lost');
    for (const id of lost) worker.cancelJob(id, 'lock lost' satisfies StopReason);
  });
  worker.on('failed', (job, error) => {
    log.error({ err: error, requestId: job?.id }, 'a job failed');
    const isStalled = error.message.includes('stalled'); // BullMQ has no other word for it
    const lost = { data: job?.data, taken: (job?.attemptsStarted ?? 0) + 1, isStalled };
    parts.endLost(lost).catch((cause: unknown) => log.error({ err: cause }, 'a lost job was not ended'));
  });
  worker.run().catch((error: unknown) => log.error({ err: error, queue: name }, 'the queue is not read any more'));

  return {
    cancel: (requestId, reason) => {
      worker.cancelJob(requestId, reason);
    },
    finish: () => worker.close().finally(unfollow),
    handBackAll: () => worker.cancelAllJobs('shutdown' satisfies StopReason),
    running: () => running,
    pause: () => holdBack(true),
    resume: () => holdBack(false),
  };
}

/** Jobs of another release may have another shape; the run refuses what cannot be read. */
function bodyLength({ data }: Job): number {
  const { body } = data as { body?: unknown };
  return typeof body === 'string' ? Buffer.byteLength(body) : 0;
}
