import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { Log } from '../../shared/log.ts';
import { jobName, openQueues, queueName } from '../../shared/queues.ts';
import { within } from '../../shared/shutdown.ts';
import type { BatchJob } from './batch-job.ts';

/** A line's job, by the name that it has in its queue; without a pool it may be in that of any. */
export type QueuedLine = { pool?: string | undefined; requestId: string };

/** The batch lanes of all pools, as far as whoever fills them uses them. Every call waits for Redis while it is away. */
export interface LineQueue extends AsyncDisposable {
  /** Of no effect where there is a job of this id already. All of a lane are equal: who is next is whose turn it is. */
  add(pool: string, job: BatchJob): Promise<void>;
  /** Which of these are still there, waiting or in some worker's hands. */
  remaining(lines: readonly QueuedLine[]): Promise<Set<string>>;
  /** Takes a job out, if there is one; false where a worker has it. */
  remove(line: QueuedLine): Promise<boolean>;
}

type Parts = { redis: Redis; pools: readonly string[]; log: Log };

const keysAtOnce = 500;
/** A queue whose Redis is away would be waited for. */
const closeMs = 500;

export function createLineQueue({ redis, pools, log }: Parts): LineQueue {
  const queues = new Map(openQueues({ connection: redis, pools, log }).map((queue) => [queue.name, queue]));

  const batchQueues = pools.flatMap((pool) => queues.get(queueName(pool, 'batch')) ?? []);

  function queueOf(pool: string): Queue {
    const queue = queues.get(queueName(pool, 'batch'));
    if (queue === undefined) throw new Error(`there is no pool "${pool}"`);
    return queue;
  }

  /** A pool that the plan file has no more has no queue either. */
  function queuesOf(pool: string | undefined): Queue[] {
    const queue = queues.get(queueName(pool ?? '', 'batch'));
    return queue === undefined ? batchQueues : [queue];
  }

  return {
    async add(pool, job) {
      await queueOf(pool).add(jobName, job, { jobId: job.requestId });
    },
    async remaining(lines) {
      const found = new Set<string>();
      for (let from = 0; from < lines.length; from += keysAtOnce) {
        const some = lines.slice(from, from + keysAtOnce);
        await Promise.all(
          some.flatMap(({ pool, requestId }) =>
            queuesOf(pool).map(async (queue) => {
              if ((await redis.exists(queue.toKey(requestId))) === 1) found.add(requestId);
            }),
          ),
        );
      }
      return found;
    },
    async remove({ pool, requestId }) {
      const removed = await Promise.all(queuesOf(pool).map((queue) => queue.remove(requestId)));
      return !removed.includes(0); // that is how BullMQ says that it is locked
    },
    async [Symbol.asyncDispose]() {
      await within(closeMs, Promise.all([...queues.values()].map((queue) => queue.close())));
    },
  };
}
