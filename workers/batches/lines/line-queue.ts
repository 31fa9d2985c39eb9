import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import type { QueueChoice } from '../../../shared/jobs/queue-choice.ts';
import { jobName, modelQueue, openQueue, poolQueue, type QueueId } from '../../../shared/jobs/queues.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { PlanFile } from '../../../shared/process/plan-file.ts';
import { within } from '../../../shared/process/shutdown.ts';
import { existingKeys } from '../../existing-keys.ts';
import type { BatchJob } from './batch-job.ts';

/** A line's job, by the name that it has in its queue; without a model it may be in that of any. */
export type QueuedLine = { model?: string | undefined; requestId: string };

/** The batch lanes of all models, for the worker that fills them. Every call waits for Redis while it is away. */
export interface LineQueue extends AsyncDisposable {
  /** Of no effect if there is a job of this id already. All of a lane are equal: who is next is whose turn it is. */
  add(job: BatchJob): Promise<void>;
  /** Which of these are still there, waiting or in a worker's hands. */
  remaining(lines: readonly QueuedLine[]): Promise<Set<string>>;
  /** Takes a job out, if there is one; false if a worker has it. */
  remove(line: QueuedLine): Promise<boolean>;
}

const keysAtOnce = 500;
/** A queue whose Redis is away would be waited for. */
const closeMs = 500;

export function createLineQueue({
  redis,
  models,
  choice,
  log,
}: {
  redis: Redis;
  models: PlanFile['models'];
  choice: Pick<QueueChoice, 'queueFor'>;
  log: Log;
}): LineQueue {
  const queues = new Map<string, Queue>();

  function open(id: QueueId): Queue {
    const queue = queues.get(id.name) ?? openQueue(id, { connection: redis, log });
    queues.set(id.name, queue);
    return queue;
  }

  /** Where lines of a model can be. A model that the plan file does not have has no queue either. */
  function queuesOf(model: string | undefined): Queue[] {
    const known = model !== undefined && models[model] !== undefined ? [model] : Object.keys(models);
    const pools = new Set(known.flatMap((name) => models[name]?.pool ?? []));
    const ids = [
      ...known.map((name) => modelQueue(name, 'batch')),
      ...[...pools].map((pool) => poolQueue(pool, 'batch')),
    ];
    return ids.map(open);
  }

  return {
    async add(job) {
      await open(choice.queueFor(job.model, 'batch')).add(jobName, job, { jobId: job.requestId });
    },
    async remaining(lines) {
      const found = new Set<string>();
      for (const [model, ofModel] of Map.groupBy(lines, (line) => line.model)) {
        for (let from = 0; from < ofModel.length; from += keysAtOnce) {
          const ids = ofModel.slice(from, from + keysAtOnce).map(({ requestId }) => requestId);
          await Promise.all(
            queuesOf(model).map(async (queue) => {
              const keyOf = (id: string) => queue.toKey(id);
              const existing = await existingKeys(redis, ids.map(keyOf));
              for (const id of ids) if (existing.has(keyOf(id))) found.add(id);
            }),
          );
        }
      }
      return found;
    },
    async remove({ model, requestId }) {
      const removed = await Promise.all(queuesOf(model).map((queue) => queue.remove(requestId)));
      return !removed.includes(0); // that is how BullMQ says that it is locked
    },
    async [Symbol.asyncDispose]() {
      await within(closeMs, Promise.all([...queues.values()].map((queue) => queue.close())));
    },
  };
}
