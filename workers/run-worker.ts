import type { Registry } from 'prom-client';
import { ulid } from 'ulid';
import { aborted, within } from '../shared/concurrency/shutdown.ts';
import type { WorkerLoad } from '../shared/fleet/note-process.ts';
import { outboxLengthFor } from '../shared/jobs/usage-outbox.ts';
import type { PlanFile } from '../shared/plan-file/plan-file.ts';
import { openAnswerBudget } from '../shared/process/answer-budget.ts';
import { readWorkerConfig, type WorkerConfig } from '../shared/process/config.ts';
import type { Log } from '../shared/process/log.ts';
import { createRemoveOldSeries } from '../shared/process/metrics.ts';
import { followProcessState, listenForOperations } from '../shared/process/operations.ts';
import { runProcess } from '../shared/process/run-process.ts';
import { checkWritesOfNodes, createCheckWrites } from '../shared/redis/check-redis.ts';
import { controlStreamKey, queuePrefix } from '../shared/redis/keys.ts';
import { waitForRedis } from '../shared/redis/wait-for-redis.ts';
import { openTelemetry } from '../shared/tracing/open-telemetry.ts';
import type { BackendSlots } from './backends/backend-slots.ts';
import { type CallHistory, createCallHistory } from './backends/call-history.ts';
import { openSlots } from './backends/open-slots.ts';
import type { BatchSupervisor } from './batches/batch-supervisor.ts';
import { loadTokenizer } from './failover/count-tokens.ts';
import { listenForControl, waitForControl } from './listen-for-control.ts';
import { warnOfLargePlans } from './memory/estimate-memory.ts';
import { createWorkerMetrics } from './metrics.ts';
import { type Connections, openConnections } from './open-connections.ts';
import { openLaneWork } from './open-lane-work.ts';
import { openPlanFile } from './open-plan-file.ts';
import { createHeldPayloads } from './queue/lane-worker.ts';
import { createLinePace } from './queue/line-pace.ts';
import { type ServedQueues, serveQueues } from './queue/serve-queues.ts';
import { createPieceReaders } from './replies/send-pieces.ts';
import { startMaintenance } from './upkeep/start-maintenance.ts';
import { openUsageDrainer, type UsageDrainer } from './usage/usage-drainer.ts';
import { openQuotaEvents, openWebhooks } from './webhooks/open-webhooks.ts';

/** The time that an aborted job needs to abort its call, send its last reply and go back to its queue. */
const requeueMs = 5_000;

/** The life of a worker, until its process exits. */
export function runWorker(): Promise<void> {
  return runProcess({ name: 'worker', readConfig: readWorkerConfig, run });
}

async function run({ config, log, shutdown }: { config: WorkerConfig; log: Log; shutdown: AbortSignal }) {
  await using parts = new AsyncDisposableStack();
  const workerId = ulid();
  const { registry, tracing } = parts.use(await openTelemetry({ config, process: 'worker', log }));
  const opened = openPlanFile({ source: config.planFile, pools: config.pools, workerId, registry, log });
  const { planFile, pools } = opened;
  const metrics = createMetrics(registry, config);
  const answering = openAnswering(config, registry);
  const { current: currentPlanFile } = planFile;
  const observed = { metrics, tracing, history: createCallHistory(), log };
  const common = { config, planFile, currentPlanFile, pools, workerId, shutdown, ...observed, ...answering };
  const connections = parts.use(await openConnections({ config, currentPlanFile, log }));
  const { store, redis, upkeepRedis, replyRedis } = connections;
  let queues: ServedQueues | undefined;
  let supervisor: BatchSupervisor | undefined;
  let drainer: UsageDrainer | undefined;
  const backends = openSlots({
    ...common,
    ...connections,
    redis: upkeepRedis,
    onChange: () => queues?.slotsChanged(),
    onRenewed: () => void queues?.checkFull().catch(() => {}), // the next renewal checks again
  });
  const { slots } = parts.use(backends);

  const state = followProcessState(shutdown);
  const running = () => queues?.running() ?? 0;
  const details = () => ({ planFile: opened.status(), running: running(), ...describeBackends(slots) });
  const operations = await openOperations({ ...common, connections, slots, registry, state: state.current, details });
  parts.use(operations);
  log.info({ port: operations.port }, 'operations listener is up; waiting for Redis');
  await loadTokenizer();
  const outboxLengthMax = await waitForConnections({ ...common, connections });

  const inbox = listenForControl({
    connectReader: connections.connectControlReader,
    redis: replyRedis,
    workerId,
    log,
    ...answering,
    queues: () => queues,
    supervisor: () => supervisor,
    drainer: () => drainer,
  });
  await waitForControl(inbox, { redis: replyRedis, shutdown, log });
  const onStored = openQuotaEvents({ ...common, redis: upkeepRedis, store });
  drainer = openUsageDrainer({ ...common, redis: upkeepRedis, store, onStored });
  const control = controlStreamKey(workerId);
  const lanes = parts.use(openLaneWork({ ...common, ...connections, slots, drainer, outboxLengthMax, control }));
  const shares = parts.use(backends.startShares());
  await shares.renewed;
  queues = serveQueues({
    ...common,
    slots,
    work: lanes.work,
    connection: redis,
    upkeepRedis,
    connectReader: connections.connectJobReader,
    checksStalled: (pool) => shares.membershipOf(pool).checksStalled,
    payloads: createHeldPayloads({ bodyBytesMax: config.bodyBytesMax }),
  });
  parts.use(queues);
  supervisor = lanes.batches.supervise();
  const maintenance = startMaintenance({ ...common, redis: upkeepRedis, store });
  const describe = () => describeLoad({ ...common, slots, running });
  const following = parts.use(await opened.follow(upkeepRedis, describe, common.history.counts));
  const webhooks = openWebhooks({ ...common, redis: upkeepRedis, store });
  state.becomeReady();
  log.info({ pools: pools(), generation: planFile.generation() }, 'ready');

  await aborted(shutdown);
  // The next supervisor of the batches gives their lines to workers that stay.
  await Promise.all([finish(queues, { ...config, following, log }), closeAll([supervisor, webhooks])]);
  // Together, because each may wait until its own time limit for a Redis that does not answer.
  await closeAll([maintenance, lanes.batches, drainer, inbox]);
}

/** What all answers of this worker share, and the pace of lines, which follows from theirs. */
function openAnswering({ answerBudgetBytes: bytesMax }: Pick<WorkerConfig, 'answerBudgetBytes'>, registry: Registry) {
  const answers = openAnswerBudget({ bytesMax, registry });
  return { answers, pieceReaders: createPieceReaders(), linePace: createLinePace() };
}

type WaitDeps = {
  config: WorkerConfig;
  connections: Connections;
  currentPlanFile: () => PlanFile;
  shutdown: AbortSignal;
  log: Log;
};

/** Waits for Redis. Returns how many usage events may wait in each outbox. */
async function waitForConnections({ config, connections, currentPlanFile, shutdown, log }: WaitDeps): Promise<number> {
  const { redis, replyRedis, upkeepRedis, replyUpkeepRedis } = connections;
  const used = [redis, replyRedis, upkeepRedis, replyUpkeepRedis] as const;
  const { memoryBytes } = await waitForRedis(used, { signal: shutdown, log });
  warnOfLargePlans({ ...currentPlanFile(), memoryBytes, log });
  return outboxLengthFor(config.outboxLengthMax, memoryBytes);
}

function createMetrics(registry: Registry, config: Pick<WorkerConfig, 'concurrency' | 'batchConcurrency'>) {
  const metrics = createWorkerMetrics(registry);
  metrics.concurrency.set({ lane: 'interactive' }, config.concurrency);
  metrics.concurrency.set({ lane: 'batch' }, config.batchConcurrency);
  return metrics;
}

function describeBackends({ breakerStatuses, pauses }: BackendSlots) {
  return { breakers: breakerStatuses(), pauses: roundedPauses({ pauses }) };
}

function roundedPauses({ pauses }: Pick<BackendSlots, 'pauses'>) {
  return pauses.all().map((pause) => ({ ...pause, leftMs: Math.ceil(pause.leftMs) }));
}

type LoadParts = { slots: BackendSlots; history: Pick<CallHistory, 'failuresOf'>; running: () => number };

/** What this worker does now, as operators see it. */
function describeLoad({ slots, history, running }: LoadParts): WorkerLoad {
  return {
    kind: 'worker',
    running: running(),
    waiting: slots.waiting(),
    backends: slots
      .load()
      .map(({ backend, calls, share }) => ({ backend, calls, ...(share !== undefined && { share }) })),
    pauses: roundedPauses(slots),
    health: slots.seenHealth().map(({ firstTokenMs, ...seen }) => ({
      ...seen,
      ...(firstTokenMs !== undefined && { firstTokenMs }),
      ...history.failuresOf(seen),
    })),
  };
}

async function closeAll(parts: readonly AsyncDisposable[]): Promise<void> {
  await Promise.all(parts.map((part) => part[Symbol.asyncDispose]()));
}

type OperationsDeps = {
  config: WorkerConfig;
  currentPlanFile: () => PlanFile;
  pools: () => readonly string[];
  connections: Connections;
  slots: BackendSlots;
  workerId: string;
} & Pick<Parameters<typeof listenForOperations>[0], 'registry' | 'state' | 'details' | 'log'>;

/** Starts the operations listener, with checks of Redis, the store and the backends. */
function openOperations({ config, currentPlanFile, connections, slots, workerId, ...deps }: OperationsDeps) {
  const { upkeepRedis, replyUpkeepRedis, store, checks } = connections;
  const queues = () => {
    const pools = deps.pools();
    const { models } = currentPlanFile();
    return Object.entries(models).flatMap(([model, { pool }]) => (pools.includes(pool) ? [queuePrefix(model)] : []));
  };
  const checkWrites = createCheckWrites(upkeepRedis);
  const nodeChecks = () => ({
    ...checkWritesOfNodes('redis', upkeepRedis),
    ...(replyUpkeepRedis !== upkeepRedis && checkWritesOfNodes('replyRedis', replyUpkeepRedis)),
  });
  return listenForOperations({
    ...config.operations,
    ...deps,
    afterScrape: createRemoveOldSeries({ registry: deps.registry, currentPlanFile }),
    required: {
      redis: () => checkWrites(queues()),
      replyRedis: () => replyUpkeepRedis.exists(controlStreamKey(workerId)),
    },
    checks: () => ({ store: () => store.ping(), ...checks.of(slots.called()), ...nodeChecks() }),
  });
}

type FinishOptions = { following: AsyncDisposable; shutdownGraceMs: number; log: Log };

/** Waits for the jobs in progress to end. Those that have not ended within the grace period are requeued or ended. */
async function finish(queues: ServedQueues, { following, shutdownGraceMs, log }: FinishOptions) {
  log.info({ running: queues.running() }, 'shutting down: finishing the jobs in progress');
  const finished = queues.finish();
  // No ingress may switch because of a worker that takes no more jobs.
  await following[Symbol.asyncDispose]();
  if (await within(shutdownGraceMs, finished)) return;
  log.warn({}, 'the grace period is over: jobs that have sent nothing are requeued, and the others are ended');
  queues.requeueAll();
  if (!(await within(requeueMs, finished)))
    log.error({}, 'some jobs did not end; another worker will find them stalled');
}
