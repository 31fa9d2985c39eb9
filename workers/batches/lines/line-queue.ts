import type { Queue } from 'bullmq';
import { within } from '../../../shared/concurrency/shutdown.ts';
import { jobName, modelQueue, openQueue } from '../../../shared/jobs/queues.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Log } from '../../../shared/process/log.ts';
import { existingKeys, ifAvailable, type Redis } from '../../../shared/redis/connections.ts';
import type { BatchJob } from './batch-job.ts';

/** A line's job by its id. Without a model it may be in any queue. */
export type QueuedLine = { model?: string | undefined; requestId: string };

const keysAtOnce = 500;
/** Limits the wait for an unavailable Redis. */
const closeMs = 500;

/**
 * The batch lanes of all models, for the worker that fills them. Calls fail as the connection does. Of `add` and `remove` it is unknown
 * then whether they were executed, and both can be repeated.
 */
export function createLineQueue({ redis, models, log }: { redis: Redis; models: () => PlanFile['models']; log: Log }) {
  const queues = new Map<string, Queue>();

  function open(model: string): Queue {
    const queue = queues.get(model) ?? openQueue(modelQueue(model, 'batch'), { connection: redis, log });
    queues.set(model, queue);
    return queue;
  }

  /** The queues that may have lines of a model. A model that is not in the plan file has no queue. */
  function queuesOf(model: string | undefined): Queue[] {
    const existing = models();
    const known = model !== undefined && existing[model] !== undefined ? [model] : Object.keys(existing);
    return known.map(open);
  }

  return {
    /** Has no effect if a job with this id exists. The jobs of a lane run in the order in which they were added. */
    async add(job: BatchJob): Promise<void> {
      await open(job.model).add(jobName, job, { jobId: job.requestId });
    },
    /**
     * Returns the requests of the lines whose job still exists, waiting or taken by a worker. In a cluster, also those whose queue does not
     * answer: their jobs may exist.
     */
    async remaining(lines: readonly QueuedLine[]): Promise<Set<string>> {
      const found = new Set<string>();
      for (const [model, ofModel] of Map.groupBy(lines, (line) => line.model)) {
        for (let from = 0; from < ofModel.length; from += keysAtOnce) {
          const ids = ofModel.slice(from, from + keysAtOnce).map(({ requestId }) => requestId);
          await Promise.all(
            queuesOf(model).map(async (queue) => {
              const keyOf = (id: string) => queue.toKey(id);
              const existing = await ifAvailable(redis, existingKeys(redis, ids.map(keyOf)));
              for (const id of ids) if (existing === undefined || existing.has(keyOf(id))) found.add(id);
            }),
          );
        }
      }
      return found;
    },
    /** Removes a job, if it exists. False if a worker has it. */
    async remove({ model, requestId }: QueuedLine): Promise<boolean> {
      const removed = await Promise.all(queuesOf(model).map((queue) => queue.remove(requestId)));
      return !removed.includes(0); // BullMQ returns 0 for a locked job
    },
    async [Symbol.asyncDispose]() {
      await within(closeMs, Promise.all([...queues.values()].map((queue) => queue.close())));
    },
  };
}

export type LineQueue = ReturnType<typeof createLineQueue>;
