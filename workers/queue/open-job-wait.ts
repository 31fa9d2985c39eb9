import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { bellKey, queuePrefix } from '../../shared/redis/keys.ts';
import type { Dispatcher } from './dispatcher.ts';
import { type JobWait, waitForJobs } from './wait-for-jobs.ts';

/** Waits for jobs of all models that this worker serves. */
export type ServedWait = JobWait & { serve(models: readonly string[]): void };

/** In a cluster, one command cannot wait for the queues of several models, so each model has its own connection. */
export function openJobWait(
  deps: {
    connection: Redis;
    /** Opens a separate connection, which is blocked while jobs are awaited. */
    connectReader: () => Redis;
    workerId: string;
    log: Log;
  },
  { awaited, mayHaveJob }: Pick<Dispatcher, 'awaited' | 'mayHaveJob'>,
): ServedWait {
  const { connection, connectReader, workerId, log } = deps;
  const common = { redis: connection, onMarker: mayHaveJob, log };
  if (!connection.isCluster) {
    const wait = waitForJobs({ ...common, reader: connectReader(), bellKey: bellKey(workerId), markers: awaited });
    return { ...wait, serve() {} };
  }
  const waits = new Map<string, JobWait>();
  const ending = new Set<PromiseLike<void>>();

  function waitFor(model: string): JobWait {
    const isOfModel = (marker: string) => marker.startsWith(queuePrefix(model));
    const markers = (except?: ReadonlySet<string>) => awaited(except).filter(isOfModel);
    return waitForJobs({ ...common, reader: connectReader(), bellKey: bellKey(workerId, model), markers });
  }

  function end(model: string, wait: JobWait): void {
    waits.delete(model);
    const ended = wait[Symbol.asyncDispose]().then(() => void ending.delete(ended));
    ending.add(ended);
  }

  return {
    serve(models) {
      for (const model of models) if (!waits.has(model)) waits.set(model, waitFor(model));
      for (const [model, wait] of waits) if (!models.includes(model)) end(model, wait);
    },
    changed() {
      for (const wait of waits.values()) wait.changed();
    },
    async [Symbol.asyncDispose]() {
      for (const [model, wait] of waits) end(model, wait);
      await Promise.all(ending);
    },
  };
}
