import type { Redis } from 'ioredis';
import { lookForStalledEveryMs, modelQueue, poolQueue, type QueueId } from '../../shared/jobs/queues.ts';
import { type Lane, lanes } from '../../shared/lane.ts';
import type { Log } from '../../shared/process/log.ts';
import type { PlanFile } from '../../shared/process/plan-file.ts';
import { bellKey } from '../../shared/redis/keys.ts';
import type { BackendSlots } from '../backends/backend-slots.ts';
import { existingKeys } from '../existing-keys.ts';
import type { BodiesHeld } from './bodies-held.ts';
import { createDispatcher, type DispatchedQueue, type Dispatcher } from './dispatcher.ts';
import { createLaneWorker, type LaneWork } from './lane-worker.ts';
import type { QueueMetrics } from './queue-metrics.ts';
import { waitForJobs } from './wait-for-jobs.ts';

export type QueuesServed = AsyncDisposable &
  Pick<Dispatcher, 'slotsChanged' | 'checkFull' | 'cancel' | 'requeueAll' | 'running' | 'finish'>;

/**
 * A marker is lost if its worker dies before it takes the job, and when a job that was put off is due if the worker that knew it
 * leaves: then the marker is set again within 5 s.
 */
const looksPerMarker = 2;

/** Runs the jobs of all models of these pools. A job waits in its queue, except one that fails over, or is of an old queue. */
export function serveQueues(deps: {
  models: PlanFile['models'];
  pools: readonly string[];
  work: Readonly<Record<Lane, LaneWork>>;
  slots: Pick<BackendSlots, 'reserve' | 'hasSlot' | 'waiting'>;
  /** Whether this worker is the one that looks for stalled jobs of a pool. */
  checksStalled: (pool: string) => boolean;
  connection: Redis;
  /** A connection of its own: it is blocked while jobs are waited for. */
  reader: Redis;
  workerId: string;
  /** Jobs of each model at once, and of these for batches, at most; 0: no lines of batches are run. */
  concurrency: number;
  batchConcurrency: number;
  bodies: BodiesHeld;
  shutdown: AbortSignal;
  metrics: Pick<QueueMetrics, 'running'>;
  log: Log;
}): QueuesServed {
  const { models, pools, work, slots, connection, batchConcurrency, log } = deps;

  function dispatched(
    queue: QueueId,
    of: Pick<DispatchedQueue, 'owner' | 'lane' | 'reserve' | 'hasSlot'> & { pool: string },
  ) {
    const { pool, lane } = of;
    const worker = createLaneWorker({ ...deps, ...work[lane], queue, labels: { pool, lane } });
    return { ...of, worker };
  }

  const ofModels = Object.entries(models)
    .filter(([, { pool }]) => pools.includes(pool))
    .flatMap(([model, { pool }]) =>
      lanes.map((lane) =>
        dispatched(modelQueue(model, lane), {
          ...{ owner: model, pool, lane },
          reserve: () => slots.reserve(model, lane),
          hasSlot: () => slots.hasSlot(model, lane),
        }),
      ),
    );
  // Of the release before, whose ingresses may still run: which model a job asks is known once it is taken.
  const ofPools = pools.flatMap((pool) =>
    lanes.map((lane) =>
      dispatched(poolQueue(pool, lane), {
        ...{ owner: `pool ${pool}`, pool, lane },
        reserve: () => undefined,
        hasSlot: () => slots.waiting() === 0,
      }),
    ),
  );
  const queues = [...ofModels, ...ofPools];

  const dispatcher = createDispatcher({
    ...{ ...deps, onAwaited: () => wait.changed() },
    // Stalled jobs of the others are looked for all the same.
    queues: queues.filter(({ lane }) => lane !== 'batch' || batchConcurrency > 0),
    findMarkers: (markers) => existingKeys(connection, markers),
  });
  const wait = waitForJobs({
    ...{ reader: deps.reader, redis: connection, bellKey: bellKey(deps.workerId), log },
    markers: dispatcher.awaited,
    onMarker: dispatcher.mayHaveJob,
  });
  const recovering = setInterval(() => {
    recover().catch((error: unknown) => log.debug({ err: error }, 'stalled jobs were not looked for'));
  }, lookForStalledEveryMs);
  let looks = 0;
  dispatcher.slotsChanged();

  /** Most queues are empty, which one command tells of all of them. */
  async function recover(): Promise<void> {
    const workers = queues.flatMap(({ pool, worker }) => (deps.checksStalled(pool) ? [worker] : []));
    const isForMarkers = ++looks % looksPerMarker === 0;
    const keys = workers.flatMap(({ activeKey, waitingKeys }) => [activeKey, ...(isForMarkers ? waitingKeys : [])]);
    const existing = await existingKeys(connection, keys);
    for (const { waitingKeys, setMarker } of workers) if (waitingKeys.some((key) => existing.has(key))) setMarker();
    await Promise.all(workers.filter(({ activeKey }) => existing.has(activeKey)).map((worker) => worker.recover()));
  }

  return {
    ...dispatcher,
    async finish() {
      clearInterval(recovering);
      // First of all: what was taken from now on would only be handed back.
      const finished = dispatcher.finish();
      await wait[Symbol.asyncDispose]();
      await finished;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(queues.map(({ worker }) => worker[Symbol.asyncDispose]()));
    },
  };
}
