import { Queue, type QueueOptions, type WorkerOptions } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Lane } from '../lane.ts';
import { lanes } from '../lane.ts';
import type { Log } from '../process/log.ts';
import { queuePrefix } from '../redis/keys.ts';

export const jobName = 'inference';

/** A queue by the name that operators see, and by what BullMQ puts in front of its keys. */
export type QueueId = { name: string; prefix: string };

/** Each model has a queue of its own in each lane. BullMQ allows no colon in a name, and a dashboard no slash. */
export function modelQueue(model: string, lane: Lane): QueueId {
  return { name: `${encodeURIComponent(model)}.${lane}`, prefix: queuePrefix(model) };
}

/** The queue that the release before this one has for all models of a pool; its name never has a dot. */
export function poolQueue(pool: string, lane: Lane): QueueId {
  const name = `${pool}-${lane}`;
  return { name, prefix: queuePrefix(name) };
}

/** Every queue of these models, with the pool whose workers read it: those of the models, and of their pools. */
export function allQueues(models: Readonly<Record<string, { pool: string }>>): (QueueId & { pool: string })[] {
  const pools = new Set(Object.values(models).map(({ pool }) => pool));
  const ofModels = Object.entries(models).flatMap(([model, { pool }]) =>
    lanes.map((lane) => ({ ...modelQueue(model, lane), pool })),
  );
  const ofPools = [...pools].flatMap((pool) => lanes.map((lane) => ({ ...poolQueue(pool, lane), pool })));
  return [...ofModels, ...ofPools];
}

/**
 * Jobs leave no trace: what came of a request travels by its reply, and a record of failed jobs would hold bodies. The
 * queue's event stream is kept short, for nothing reads it.
 */
export function queueOptions({ prefix }: QueueId, connection: Redis): QueueOptions {
  return {
    connection,
    prefix,
    streams: { events: { maxLen: 1_000 } },
    // The check is one call at the start, and where that one fails the queue can never be used.
    skipVersionCheck: true,
    defaultJobOptions: { attempts: 1, removeOnComplete: true, removeOnFail: true },
  };
}

/** How long a job is its worker's after it was taken, and after each renewal of that, in milliseconds. */
export const lockMs = 10_000;
export const renewLocksEveryMs = 3_000;

/** No job is taken from a worker that has it for less than this. */
export const unchallengedMs = Math.floor(lockMs / 3);

/**
 * How often stalled jobs are looked for. One whose worker has died is found at the first look after its lock has expired, if a
 * look before that has seen it in hand: at most 12.5 s after the death.
 */
export const lookForStalledEveryMs = 2_500;

export function workerOptions({ prefix }: QueueId, connection: Redis): WorkerOptions {
  return {
    connection,
    prefix,
    autorun: false,
    skipVersionCheck: true,
    lockDuration: lockMs,
    // BullMQ's bound for looks by several workers at once; here one worker looks.
    stalledInterval: 1_000,
    maxStalledCount: 2,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  };
}

/** The connection has to be ready: a queue that is opened without one can never be used. */
export function openQueue(id: QueueId, { connection, log }: { connection: Redis; log: Log }): Queue {
  const queue = new Queue(id.name, queueOptions(id, connection));
  // The connection reports its own trouble; without a listener the queue would throw it.
  queue.on('error', (error) => log.debug({ err: error, queue: id.name }, 'a queue reported an error'));
  return queue;
}
