import type { Queue } from 'bullmq';
import type { InferenceJob } from '../../shared/jobs/inference-job.ts';
import { jobName, modelQueue, openQueue } from '../../shared/jobs/queues.ts';
import type { Log } from '../../shared/process/log.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';

/** The queues to which an ingress adds jobs: the interactive lane of every model. */
export function createRequestQueues(deps: { connection: Redis; log: Log }) {
  const queues = new Map<string, Queue>();

  function open(model: string): Queue {
    const queue = queues.get(model) ?? openQueue(modelQueue(model, 'interactive'), deps);
    queues.set(model, queue);
    return queue;
  }

  return {
    /** Adds a job in one round trip. The job id is the request id. `SERVICE_UNAVAILABLE` if it is unknown whether the job was queued. */
    async add(job: InferenceJob, priority: number): Promise<void> {
      await redisUnavailable(open(job.model).add(jobName, job, { jobId: job.requestId, priority }));
    },
    /** Removes a job that no worker has taken. Has no effect on other jobs. */
    async remove(model: string, requestId: string): Promise<void> {
      await open(model).remove(requestId);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...queues.values()].map((queue) => queue.close()));
    },
  };
}

export type RequestQueues = ReturnType<typeof createRequestQueues>;
