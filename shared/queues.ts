import { Queue, type QueueOptions, type WorkerOptions } from 'bullmq';
import type { Redis } from 'ioredis';
import { type Lane, lanes } from './lane.ts';
import type { Log } from './log.ts';
import { queuePrefix } from './redis-keys.ts';

export const jobName = 'inference';

export function queueName(pool: string, lane: Lane): string {
  return `${pool}-${lane}`;
}

/**
 * Jobs leave no trace: what came of a request travels by its reply, and a record of failed jobs would hold bodies. The
 * queue's event stream is kept short, for nobody reads it.
 */
export function queueOptions(name: string, connection: Redis): QueueOptions {
  return {
    connection,
    prefix: queuePrefix(name),
    streams: { events: { maxLen: 1_000 } },
    // The check is one call at the start, and where that one fails the queue can never be used.
    skipVersionCheck: true,
    defaultJobOptions: { attempts: 1, removeOnComplete: true, removeOnFail: true },
  };
}

/** How long a job is its worker's after it was taken, and after each renewal of that, in milliseconds. */
const lockMs = 10_000;

/** No job is taken from a worker that has it for less than this. */
export const unchallengedMs = Math.floor(lockMs / 3);

/**
 * A worker that dies is noticed within `lockDuration` + 2 × `stalledInterval` = 15 s: all workers of a queue take turns at
 * looking, and a turn may fall to one that is dead. The idle wait (`drainDelay`, seconds) is shorter than the silence after which
 * a connection is replaced, and that with the time between two renewals shorter than the lock: so a network gone silent is
 * noticed before another worker runs the job a second time.
 */
export function workerOptions(name: string, connection: Redis, concurrency: number): WorkerOptions {
  return {
    connection,
    concurrency,
    prefix: queuePrefix(name),
    autorun: false,
    lockDuration: lockMs,
    lockRenewTime: 3_000,
    stalledInterval: 2_500,
    maxStalledCount: 2,
    drainDelay: 4,
    runRetryDelay: 1_000,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  };
}

type Parts = { connection: Redis; pools: readonly string[]; log: Log };

/** Both lanes of each pool. The connection has to be ready: a queue that is opened without one can never be used. */
export function openQueues({ connection, pools, log }: Parts): Queue[] {
  const names = pools.flatMap((pool) => lanes.map((lane) => queueName(pool, lane)));
  return names.map((name) => {
    const queue = new Queue(name, queueOptions(name, connection));
    // The connection reports its own trouble; without a listener the queue would throw it.
    queue.on('error', (error) => log.debug({ err: error, queue: name }, 'a queue reported an error'));
    return queue;
  });
}
