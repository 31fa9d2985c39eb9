import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { InferenceJob } from '../shared/inference-job.ts';
import { type Lane, lanes } from '../shared/lane.ts';
import type { Log } from '../shared/log.ts';
import { jobName, openQueues, queueName } from '../shared/queues.ts';
import { redisUnavailable } from '../shared/redis.ts';

export interface RequestQueues extends AsyncDisposable {
  /** One round trip; `SERVICE_UNAVAILABLE` when it is not known whether the job was queued. The job id is the request's. */
  add(job: InferenceJob, place: { pool: string; priority: number }): Promise<void>;
  /** Takes a job out that no worker has taken yet; of no effect on another. */
  remove(pool: string, requestId: string): Promise<void>;
  /** Jobs that wait in a lane of a pool. */
  depth(pool: string, lane: Lane): Promise<number>;
  /** The same for every lane there is. */
  depths(): Promise<{ pool: string; lane: Lane; jobs: number }[]>;
}

type Parts = { connection: Redis; pools: readonly string[]; log: Log };

/** The queues of every pool as far as an ingress uses them: it fills the interactive lane, and looks at both. */
export function createRequestQueues(parts: Parts): RequestQueues {
  const queues = new Map(openQueues(parts).map((queue) => [queue.name, queue]));

  function queueOf(pool: string, lane: Lane = 'interactive'): Queue {
    const queue = queues.get(queueName(pool, lane));
    if (queue === undefined) throw new Error(`there is no pool "${pool}"`);
    return queue;
  }

  const depth = async (pool: string, lane: Lane) => queueOf(pool, lane).getJobCountByTypes('waiting', 'prioritized');

  return {
    async add(job, { pool, priority }) {
      await redisUnavailable(queueOf(pool).add(jobName, job, { jobId: job.requestId, priority }));
    },
    async remove(pool, requestId) {
      await queueOf(pool).remove(requestId);
    },
    depth,
    depths() {
      const all = parts.pools.flatMap((pool) => lanes.map((lane) => ({ pool, lane })));
      return Promise.all(all.map(async ({ pool, lane }) => ({ pool, lane, jobs: await depth(pool, lane) })));
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...queues.values()].map((queue) => queue.close()));
    },
  };
}
