import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { InferenceJob } from '../shared/inference-job.ts';
import type { Log } from '../shared/log.ts';
import { jobName, queueName, queueOptions } from '../shared/queues.ts';
import { redisUnavailable } from '../shared/redis.ts';

export interface RequestQueues extends AsyncDisposable {
  /** One round trip; `SERVICE_UNAVAILABLE` when it is not known whether the job was queued. The job id is the request's. */
  add(job: InferenceJob, place: { pool: string; priority: number }): Promise<void>;
  /** Takes a job out that no worker has taken yet; of no effect on another. */
  remove(pool: string, requestId: string): Promise<void>;
  /** Jobs waiting in each pool's interactive lane. */
  depths(): Promise<{ pool: string; jobs: number }[]>;
}

/** The interactive lane of every pool, as far as an ingress uses it. */
export function createRequestQueues(parts: { connection: Redis; pools: readonly string[]; log: Log }): RequestQueues {
  const queues = new Map(
    parts.pools.map((pool) => {
      const name = queueName(pool, 'interactive');
      const queue = new Queue(name, queueOptions(name, parts.connection));
      // The connection reports its own trouble; without a listener the queue would throw it.
      queue.on('error', (error) => parts.log.debug({ err: error, queue: name }, 'a queue reported an error'));
      return [pool, queue] as const;
    }),
  );

  function queueOf(pool: string): Queue {
    const queue = queues.get(pool);
    if (queue === undefined) throw new Error(`there is no pool "${pool}"`);
    return queue;
  }

  return {
    async add(job, { pool, priority }) {
      await redisUnavailable(queueOf(pool).add(jobName, job, { jobId: job.requestId, priority }));
    },
    async remove(pool, requestId) {
      await queueOf(pool).remove(requestId);
    },
    depths() {
      return Promise.all(
        [...queues].map(async ([pool, queue]) => ({
          pool,
          jobs: await queue.getJobCountByTypes('waiting', 'prioritized'),
        })),
      );
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...queues.values()].map((queue) => queue.close()));
    },
  };
}
