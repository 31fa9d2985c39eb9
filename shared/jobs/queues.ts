import { Queue, type QueueOptions, type WorkerOptions } from 'bullmq';
import type { Log } from '../process/log.ts';
import type { Redis } from '../redis/connections.ts';
import { type Lane, lanes, queuePrefix } from '../redis/keys.ts';

export const jobName = 'inference';

/** A queue: the name that operators see, and the prefix of its BullMQ keys. */
export type QueueId = { name: string; prefix: string };

/**
 * Each model has its own queue in each lane (contract.md#o1-queues, decisions.md#one-queue-for-each-model-and-lane). BullMQ allows no colon
 * in a name, and a dashboard allows no slash.
 */
export function modelQueue(model: string, lane: Lane): QueueId {
  return { name: `${encodeURIComponent(model)}.${lane}`, prefix: queuePrefix(model) };
}

/** Lists every queue of these models, with the pool whose workers read it. */
export function allQueues(models: Readonly<Record<string, { pool: string }>>): (QueueId & { pool: string })[] {
  return Object.entries(models).flatMap(([model, { pool }]) =>
    lanes.map((lane) => ({ ...modelQueue(model, lane), pool })),
  );
}

/**
 * Finished jobs are not kept: the outcome of a request is sent in its reply, and records of failed jobs would hold payloads
 * (decisions.md#bullmq-on-redis). The queue's event stream is kept short because nothing reads it.
 */
export function queueOptions({ prefix }: QueueId, connection: Redis): QueueOptions {
  return {
    connection,
    prefix,
    streams: { events: { maxLen: 1_000 } },
    // The check is one call at the start, and if it fails the queue can never be used.
    skipVersionCheck: true,
    defaultJobOptions: { attempts: 1, removeOnComplete: true, removeOnFail: true },
  };
}

/**
 * How long a worker holds the lock of a job after it took the job or renewed the lock, in milliseconds (contract.md#o10-job-locks,
 * decisions.md#job-locks-of-10-s).
 */
export const lockMs = 10_000;
export const renewLocksEveryMs = 3_000;

/** No job is taken from a worker that has held it for less than this. */
export const unchallengedMs = Math.floor(lockMs / 3);

/**
 * How often stalled jobs are checked for. A job whose worker died is found at the first check after its lock has expired, if an earlier
 * check saw it in progress: at most 12.5 s after the death (contract.md#o11-stalled-jobs).
 */
export const lookForStalledEveryMs = 2_500;

/** Finished jobs are not kept, but counted for the dashboard: all of them, and those of each minute of the last day. */
export const countedMinutes = 1_440;

export function workerOptions({ prefix }: QueueId, connection: Redis): WorkerOptions {
  return {
    connection,
    prefix,
    autorun: false,
    skipVersionCheck: true,
    lockDuration: lockMs,
    // BullMQ's bound for checks by several workers at once; here one worker checks.
    stalledInterval: 1_000,
    maxStalledCount: 2,
  };
}

/** Opens a queue. The connection must be ready: a queue opened without one can never be used. */
export function openQueue(id: QueueId, { connection, log }: { connection: Redis; log: Log }): Queue {
  const queue = new Queue(id.name, queueOptions(id, connection));
  // The connection reports its own errors; without a listener the queue would throw them.
  queue.on('error', (error) => log.debug({ err: error, queue: id.name }, 'a queue reported an error'));
  return queue;
}
