import type { Queue } from 'bullmq';
import { allQueues, openQueue } from '../../../shared/jobs/queues.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { Redis } from '../../../shared/redis/connections.ts';
import type { ShownQueue } from './queue-board.ts';

/** The queues that the dashboard shows. */
export function createShownQueues({ connection, log }: { connection: Redis; log: Log }) {
  let opened = new Map<string, Queue>();

  function close(queue: Queue): Promise<void> {
    return queue.close().catch((error: unknown) => log.debug({ err: error }, 'a queue was not closed'));
  }

  return {
    /** Returns the queues of these models. Opens those that are new, and closes those of other models. */
    ofModels(models: Parameters<typeof allQueues>[0]): ShownQueue[] {
      const earlier = opened;
      const shown = allQueues(models).map(({ pool, ...id }) => ({
        pool,
        queue: earlier.get(id.name) ?? openQueue(id, { connection, log }),
      }));
      opened = new Map(shown.map(({ queue }) => [queue.name, queue]));
      for (const [name, queue] of earlier) if (!opened.has(name)) void close(queue);
      return shown;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...opened.values()].map(close));
    },
  };
}

export type ShownQueues = ReturnType<typeof createShownQueues>;
