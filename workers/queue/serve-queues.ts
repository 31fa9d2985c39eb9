import { modelQueue, type QueueId } from '../../shared/jobs/queues.ts';
import { type Lane, lanes } from '../../shared/lane.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import { inOneSlot, type Redis } from '../../shared/redis/connections.ts';
import { bellKey, queuePrefix } from '../../shared/redis/keys.ts';
import type { BackendSlots } from '../backends/backend-slots.ts';
import { existingKeys } from '../redis/existing-keys.ts';
import type { BodiesHeld } from './bodies-held.ts';
import { createDispatcher, type Dispatcher } from './dispatcher.ts';
import { createLaneWorker, type LaneWork } from './lane-worker.ts';
import type { QueueMetrics } from './queue-metrics.ts';
import type { DispatchedQueue } from './queue-state.ts';
import { startStalledRecovery } from './start-stalled-recovery.ts';
import { type JobWait, waitForJobs } from './wait-for-jobs.ts';

export type QueuesServed = AsyncDisposable &
  Pick<Dispatcher, 'slotsChanged' | 'checkFull' | 'cancel' | 'requeueAll' | 'running' | 'finish'>;

type QueuesDeps = {
  models: PlanFile['models'];
  pools: readonly string[];
  work: Readonly<Record<Lane, LaneWork>>;
  slots: Pick<BackendSlots, 'reserve' | 'hasSlot'>;
  /** Whether this worker looks for stalled jobs of a pool. */
  checksStalled: (pool: string) => boolean;
  connection: Redis;
  /** For regular checks; see `Connections`. */
  upkeepRedis: Redis;
  /** Opens a separate connection, which is blocked while jobs are awaited. */
  connectReader: () => Redis;
  workerId: string;
  /** Max concurrent jobs of each model, and max lines of batches of these; 0: no lines of batches are run. */
  concurrency: number;
  batchConcurrency: number;
  bodies: BodiesHeld;
  shutdown: AbortSignal;
  metrics: Pick<QueueMetrics, 'running'>;
  log: Log;
};

/**
 * Shorter than the pause between two renewals of shares. In a cluster, the shares of each backend are renewed separately, and one check
 * is enough for all of them.
 */
const checkPauseMsMin = 150;

/** Runs the jobs of all models of these pools. A job waits in its queue for a slot. Only a job that fails over waits in the worker. */
export function serveQueues(deps: QueuesDeps): QueuesServed {
  const { upkeepRedis, batchConcurrency } = deps;
  const queues = queuesOfModels(deps);
  const dispatcher = createDispatcher({
    ...{ ...deps, onAwaited: () => wait.changed() },
    // The other queues are only checked for stalled jobs.
    queues: queues.filter(({ lane }) => lane !== 'batch' || batchConcurrency > 0),
    groupMarkers: (markers) => inOneSlot(upkeepRedis, markers),
    findMarkers: (markers) => existingKeys(upkeepRedis, markers),
  });
  const wait = openWait(deps, dispatcher);
  let checkedAt = Number.NEGATIVE_INFINITY;
  const recovery = startStalledRecovery({ ...deps, queues });
  dispatcher.slotsChanged();

  return {
    ...dispatcher,
    async checkFull() {
      if (performance.now() - checkedAt < checkPauseMsMin) return;
      checkedAt = performance.now();
      await dispatcher.checkFull();
    },
    async finish() {
      recovery[Symbol.dispose]();
      // First, because jobs taken from now on would only be requeued.
      const finished = dispatcher.finish();
      await wait[Symbol.asyncDispose]();
      await finished;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(queues.map(({ worker }) => worker[Symbol.asyncDispose]()));
    },
  };
}

/** In a cluster, one command cannot wait for the queues of several models, so each model has its own connection. */
function openWait(deps: QueuesDeps, { awaited, mayHaveJob }: Dispatcher): JobWait {
  const { connection, connectReader, workerId, log } = deps;
  const common = { redis: connection, onMarker: mayHaveJob, log };
  if (!connection.isCluster)
    return waitForJobs({ ...common, reader: connectReader(), bellKey: bellKey(workerId), markers: awaited });
  const served = Object.entries(deps.models).filter(([, { pool }]) => deps.pools.includes(pool));
  const waits = served.map(([model]) => {
    const isOfModel = (marker: string) => marker.startsWith(queuePrefix(model));
    const markers = (except?: ReadonlySet<string>) => awaited(except).filter(isOfModel);
    return waitForJobs({ ...common, reader: connectReader(), bellKey: bellKey(workerId, model), markers });
  });
  return {
    changed() {
      for (const wait of waits) wait.changed();
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(waits.map((wait) => wait[Symbol.asyncDispose]()));
    },
  };
}

function queuesOfModels(deps: QueuesDeps) {
  const { slots } = deps;
  return Object.entries(deps.models)
    .filter(([, { pool }]) => deps.pools.includes(pool))
    .flatMap(([model, { pool }]) =>
      lanes.map((lane) => ({
        ...{ owner: model, lane, pool, worker: openWorker(deps, { queue: modelQueue(model, lane), pool, lane }) },
        reserve: () => slots.reserve(model, lane),
        hasSlot: () => slots.hasSlot(model, lane),
      })),
    );
}

type Opened = { queue: QueueId; pool: string; lane: Lane };

function openWorker(
  { work, connection, bodies, shutdown, metrics, log }: QueuesDeps,
  { queue, pool, lane }: Opened,
): DispatchedQueue['worker'] {
  return createLaneWorker({
    ...work[lane],
    ...{ queue, labels: { pool, lane }, connection, bodies, shutdown, metrics, log },
  });
}
