import type { Worker } from 'bullmq';
import { z } from 'zod';
import { atTick } from '../../shared/fleet/gather-reads.ts';
import { countedMinutes } from '../../shared/jobs/queues.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';
import { atEndOfTurn } from '../../shared/redis/observe-connection.ts';

type Deps = { worker: Pick<Worker, 'toKey'>; connection: Redis; log: Log };

const clearMarkerLua = loadLua(new URL('./clear-marker.lua', import.meta.url), {
  keys: 'markerKey waitKey prioritizedKey delayedKey counterKey',
});

/**
 * Returns a function that clears the marker of an empty queue, right after the jobs that are taken in this turn of the event loop: a marker
 * without a job would make a worker look for one (decisions.md#our-own-scripts-beside-bullmq-s). It resolves with whether more jobs wait,
 * and with true if that is not known.
 */
export function createClearMarker({ worker, connection, log }: Deps): () => Promise<boolean> {
  const call = loadScript(connection, clearMarkerLua);
  const keys = {
    markerKey: worker.toKey('marker'),
    waitKey: worker.toKey('wait'),
    prioritizedKey: worker.toKey('prioritized'),
    delayedKey: worker.toKey('delayed'),
    counterKey: worker.toKey('pc'),
  };
  let clearing: Promise<boolean> | undefined;

  async function clear(): Promise<boolean> {
    await new Promise<void>((resolve) => atEndOfTurn(resolve, 'gather'));
    clearing = undefined;
    try {
      return (await call(keys)) !== 0;
    } catch (error) {
      log.debug({ err: error, ...keys }, 'a marker was not cleared');
      return true;
    }
  }

  return function clearMarker() {
    clearing ??= clear();
    return clearing;
  };
}

const endJobsLua = loadLua(new URL('./end-jobs.lua', import.meta.url), {
  keys: 'activeKey stalledKey countsKey minutesKey',
  args: 'prefix ...jobs',
  constants: { countedMinutes },
});
const lostSchema = z.array(z.string());

/**
 * Returns a function that removes a completed job from its queue. All that end until the next tick are removed with one script
 * (decisions.md#our-own-scripts-beside-bullmq-s). Fails if this worker does not hold the lock of the job any more.
 */
export function createEndJob({ worker, connection }: Omit<Deps, 'log'>): (id: string, token: string) => Promise<void> {
  const call = loadScript(connection, endJobsLua);
  const keys = {
    activeKey: worker.toKey('active'),
    stalledKey: worker.toKey('stalled'),
    countsKey: worker.toKey('metrics:completed'),
    minutesKey: worker.toKey('metrics:completed:data'),
    prefix: worker.toKey(''),
  };
  let jobs: string[] = [];
  let ending = Promise.resolve<readonly string[]>([]);

  async function end(): Promise<readonly string[]> {
    await new Promise<void>(atTick);
    const ended = jobs;
    jobs = [];
    return lostSchema.parse(await call({ ...keys, jobs: ended }));
  }

  return async function endJob(id, token) {
    if (jobs.length === 0) ending = end();
    jobs.push(id, token);
    if ((await ending).includes(id)) throw new Error('this worker does not hold the lock of the job any more');
  };
}
