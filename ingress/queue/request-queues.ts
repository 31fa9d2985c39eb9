import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { InferenceJob } from '../../shared/jobs/inference-job.ts';
import type { QueueChoice } from '../../shared/jobs/queue-choice.ts';
import { jobName, modelQueue, openQueue, poolQueue, type QueueId } from '../../shared/jobs/queues.ts';
import type { Log } from '../../shared/process/log.ts';
import type { PlanFile } from '../../shared/process/plan-file.ts';
import { redisUnavailable } from '../../shared/redis/connections.ts';
import type { JobPriority } from './job-priority.ts';

export interface RequestQueues extends AsyncDisposable {
  /** Adds a job in one round trip. The job id is the request id. `SERVICE_UNAVAILABLE` if it is unknown whether the job was queued. */
  add(job: InferenceJob, priority: JobPriority): Promise<void>;
  /** Removes a job that no worker has taken. Has no effect on other jobs. */
  remove(model: string, requestId: string): Promise<void>;
}

/** The queues to which an ingress adds jobs: the interactive lane of every model. */
export function createRequestQueues(deps: {
  connection: Redis;
  models: PlanFile['models'];
  choice: Pick<QueueChoice, 'queueFor'>;
  log: Log;
}): RequestQueues {
  const { models, choice } = deps;
  const queues = new Map<string, Queue>();

  function open(id: QueueId): Queue {
    const queue = queues.get(id.name) ?? openQueue(id, deps);
    queues.set(id.name, queue);
    return queue;
  }

  return {
    async add(job, { inTurn, ofPlan }) {
      const id = choice.queueFor(job.model, 'interactive');
      const priority = id.name === modelQueue(job.model, 'interactive').name ? inTurn : ofPlan;
      await redisUnavailable(open(id).add(jobName, job, { jobId: job.requestId, priority }));
    },
    async remove(model, requestId) {
      const pool = models[model]?.pool;
      const ids = [modelQueue(model, 'interactive'), ...(pool === undefined ? [] : [poolQueue(pool, 'interactive')])];
      await Promise.all(ids.map((id) => open(id).remove(requestId)));
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...queues.values()].map((queue) => queue.close()));
    },
  };
}
