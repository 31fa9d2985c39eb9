import { lookForStalledEveryMs, modelQueue } from '../../shared/jobs/queues.ts';
import type { WorkerConfig } from '../../shared/process/config.ts';
import type { Log } from '../../shared/process/log.ts';
import type { PlanFileInForce } from '../../shared/process/watch-plan-file.ts';
import { groupByTag } from '../../shared/redis/cluster.ts';
import { existingKeys, inOneSlot, type Redis } from '../../shared/redis/connections.ts';
import { type Lane, lanes } from '../../shared/redis/keys.ts';
import type { BackendSlots } from '../backends/backend-slots.ts';
import { createDispatcher, type Dispatcher } from './dispatcher.ts';
import { createLaneWorker, type HeldPayloads, type LaneWork, type LaneWorker } from './lane-worker.ts';
import type { LinePace } from './line-pace.ts';
import type { DispatchedQueue } from './queue-state.ts';
import { openJobWait } from './wait-for-jobs.ts';

export type ServedQueues = AsyncDisposable &
  Pick<Dispatcher, 'slotsChanged' | 'checkFull' | 'cancel' | 'requeueAll' | 'running' | 'finish'>;

type QueuesDeps = {
  planFile: Pick<PlanFileInForce, 'current' | 'onReplaced'>;
  pools: () => readonly string[];
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
  config: Pick<WorkerConfig, 'concurrency' | 'batchConcurrency'>;
  payloads: HeldPayloads;
  linePace: Pick<LinePace, 'isDue' | 'noteTaking'>;
  shutdown: AbortSignal;
  metrics: Parameters<typeof createLaneWorker>[0]['metrics'];
  log: Log;
};

/**
 * Shorter than the pause between two renewals of shares. In a cluster, the shares of each backend are renewed separately, and one check
 * is enough for all of them.
 */
const checkPauseMsMin = 150;

/**
 * Runs the jobs of all models of these pools, as the plan file has them. A job waits in its queue for a slot. Only a job that fails over
 * waits in the worker. The slots must follow the plan file before the queues do.
 */
export function serveQueues(deps: QueuesDeps): ServedQueues {
  const { planFile, upkeepRedis, config, log } = deps;
  const queues = openQueues(deps);
  const dispatcher = createDispatcher({
    ...config,
    payloads: deps.payloads,
    linePace: deps.linePace,
    log,
    onAwaited: () => wait.changed(),
    groupMarkers: (markers) => inOneSlot(upkeepRedis, markers),
    findMarkers: (markers) => existingKeys(upkeepRedis, markers),
    putBack(marker, at) {
      const report = (error: unknown) => log.debug({ err: error }, 'a marker was not put back');
      upkeepRedis.zadd(marker, at, '0').catch(report);
    },
    onGone({ worker }) {
      const report = (error: unknown) => log.debug({ err: error }, 'a queue was not closed');
      void worker[Symbol.asyncDispose]().then(undefined, report);
    },
  });
  const wait = openJobWait(deps, dispatcher);
  let checkedAt = Number.NEGATIVE_INFINITY;
  let isFinishing = false;
  const recovery = startStalledRecovery({ ...deps, queues: queues.current });
  planFile.onReplaced(serve);
  serve();

  function serve(): void {
    if (isFinishing) return;
    const served = queues.follow();
    wait.serve([...new Set(served.map(({ owner }) => owner))]);
    // The other queues are only checked for stalled jobs.
    dispatcher.serve(served.filter(({ lane }) => lane !== 'batch' || config.batchConcurrency > 0));
  }

  return {
    ...dispatcher,
    async checkFull() {
      if (performance.now() - checkedAt < checkPauseMsMin) return;
      checkedAt = performance.now();
      await dispatcher.checkFull();
    },
    async finish() {
      isFinishing = true;
      recovery[Symbol.dispose]();
      // First, because jobs taken from now on would only be requeued.
      const finished = dispatcher.finish();
      await wait[Symbol.asyncDispose]();
      await finished;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(queues.current().map(({ worker }) => worker[Symbol.asyncDispose]()));
    },
  };
}

type ServedQueue = DispatchedQueue & { pool: string };

/** The queues of the models of these pools. `follow` opens and drops queues as the current plan file has them. */
function openQueues(deps: QueuesDeps) {
  const { planFile, pools, slots } = deps;
  let opened = new Map<string, ServedQueue>();

  function open(model: string, pool: string, lane: Lane): ServedQueue {
    return {
      owner: model,
      lane,
      pool,
      worker: openWorker(deps, { model, pool, lane }),
      reserve: () => slots.reserve(model, lane),
      hasSlot: () => slots.hasSlot(model, lane),
    };
  }

  return {
    current: () => [...opened.values()],
    follow(): ServedQueue[] {
      const own = pools();
      const served = Object.entries(planFile.current().models).filter(([, { pool }]) => own.includes(pool));
      opened = new Map(
        served.flatMap(([model, { pool }]) =>
          lanes.map((lane) => {
            const name = [lane, pool, model].join(' ');
            return [name, opened.get(name) ?? open(model, pool, lane)] as const;
          }),
        ),
      );
      return [...opened.values()];
    },
  };
}

type LaneQueue = { model: string; pool: string; lane: Lane };

function openWorker(
  { work, connection, payloads, shutdown, metrics, log }: QueuesDeps,
  { model, pool, lane }: LaneQueue,
): DispatchedQueue['worker'] {
  return createLaneWorker({
    ...work[lane],
    queue: modelQueue(model, lane),
    labels: { pool, lane },
    connection,
    payloads,
    shutdown,
    metrics,
    log,
  });
}

type PoolQueue = { pool: string; worker: Pick<LaneWorker, 'activeKey' | 'waitingKeys' | 'setMarker' | 'recover'> };

/**
 * A marker is lost if its worker dies before it takes the job, or if the worker that knows of a delayed job stops before the job is due.
 * Then the marker is set again within 5 s.
 */
const checksPerMarker = 2;

/**
 * Puts stalled jobs back into their queues, and sets lost markers, at a regular interval until it is disposed of
 * (contract.md#o11-stalled-jobs).
 */
function startStalledRecovery(deps: {
  queues: () => readonly PoolQueue[];
  /** Whether this worker looks for stalled jobs of a pool. */
  checksStalled: (pool: string) => boolean;
  /** For regular checks; see `Connections`. */
  upkeepRedis: Redis;
  log: Log;
}): Disposable {
  const { queues, checksStalled, upkeepRedis, log } = deps;
  let checks = 0;

  async function recoverAll(): Promise<void> {
    const workers = queues().flatMap(({ pool, worker }) => (checksStalled(pool) ? [worker] : []));
    const isForMarkers = ++checks % checksPerMarker === 0;
    const groups = upkeepRedis.isCluster ? groupByTag(workers, ({ activeKey }) => activeKey) : [workers];
    await Promise.all(groups.map((group) => recover(group, isForMarkers).catch(report)));
  }

  /** Most queues are empty. One command finds that out for all of them; in a cluster, for those of a model. */
  async function recover(workers: readonly PoolQueue['worker'][], isForMarkers: boolean): Promise<void> {
    const keys = workers.flatMap(({ activeKey, waitingKeys }) => [activeKey, ...(isForMarkers ? waitingKeys : [])]);
    const existing = await existingKeys(upkeepRedis, keys);
    for (const { waitingKeys, setMarker } of workers) if (waitingKeys.some((key) => existing.has(key))) setMarker();
    await Promise.all(workers.filter(({ activeKey }) => existing.has(activeKey)).map((worker) => worker.recover()));
  }

  const report = (error: unknown) => log.debug({ err: error }, 'stalled jobs were not looked for');
  const timer = setInterval(() => void recoverAll(), lookForStalledEveryMs);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
