import { createAffinityKeys } from '../shared/endpoints/affinity-keys.ts';
import type { BackendAgents } from '../shared/fleet/backend-agents.ts';
import type { BackendKeys } from '../shared/fleet/backend-keys.ts';
import { createKeptAnswers } from '../shared/jobs/idempotency.ts';
import { createSettle } from '../shared/limits/settle.ts';
import type { PlanFile } from '../shared/plan-file/plan-file.ts';
import type { AnswerBudget } from '../shared/process/answer-budget.ts';
import type { WorkerConfig } from '../shared/process/config.ts';
import type { Log } from '../shared/process/log.ts';
import type { LimitMetrics } from '../shared/process/metrics.ts';
import type { Redis } from '../shared/redis/connections.ts';
import type { Lane } from '../shared/redis/keys.ts';
import type { Store } from '../shared/store/records/store.ts';
import type { Tracing } from '../shared/tracing/span.ts';
import { createOwnFields } from './backend-client/body-for.ts';
import { createCallBackend } from './backend-client/call-backend.ts';
import type { BackendSlots } from './backends/backend-slots.ts';
import type { CallHistory } from './backends/call-history.ts';
import { type BatchMetrics, createObserveBatches } from './batches/batch-metrics.ts';
import { openBatches } from './batches/open-batches.ts';
import { createFindAnswer } from './failover/find-answer.ts';
import type { AnswerMetrics } from './failover/try-backend.ts';
import type { LaneWork } from './queue/lane-worker.ts';
import type { LinePace } from './queue/line-pace.ts';
import type { PieceReaders } from './replies/send-pieces.ts';
import { openRequestWork } from './requests/open-request-work.ts';
import type { RequestMetrics } from './requests/process-request.ts';
import { createStartRun } from './requests/start-run.ts';
import { createNotifyDrainer, settleAndNotify } from './usage/notify-drainers.ts';
import type { UsageDrainer } from './usage/usage-drainer.ts';

/** `batches` is disposed of separately, before what the work of both lanes still uses. */
type LanesWork = Disposable & { work: Readonly<Record<Lane, LaneWork>>; batches: ReturnType<typeof openBatches> };

/** Opens the work on requests and on lines of batches. */
export function openLaneWork(deps: {
  config: Pick<WorkerConfig, 'keyPeppers'>;
  currentPlanFile: () => PlanFile;
  store: Store;
  redis: Redis;
  replyRedis: Redis;
  /** For regular work; see `Connections`. */
  upkeepRedis: Redis;
  replyUpkeepRedis: Redis;
  /** Replies use the same connection as settling. */
  oneConnection: boolean;
  agents: BackendAgents;
  keys: BackendKeys;
  workerId: string;
  slots: BackendSlots;
  history: CallHistory;
  answers: AnswerBudget;
  pieceReaders: PieceReaders;
  linePace: Pick<LinePace, 'begin'>;
  drainer: UsageDrainer;
  outboxLengthMax: number;
  /** This worker's control stream. */
  control: string;
  shutdown: AbortSignal;
  metrics: LimitMetrics & AnswerMetrics & RequestMetrics & BatchMetrics;
  tracing: Tracing | undefined;
  log: Log;
}): LanesWork {
  const { config, currentPlanFile, redis, upkeepRedis, replyUpkeepRedis, agents, slots, drainer, metrics, log } = deps;
  const timeouts = () => currentPlanFile().timeouts;
  const owned = new DisposableStack();
  const notifyDrainer = owned.use(
    createNotifyDrainer({ redis: upkeepRedis, replyRedis: replyUpkeepRedis, notifyOwn: drainer.notify, log }),
  );
  const settle = settleAndNotify(createSettle(redis), notifyDrainer);
  // Without several attempts, because the line is postponed.
  const settleLine = upkeepRedis.isCluster
    ? settleAndNotify(createSettle(upkeepRedis, { attemptsMax: 1 }), notifyDrainer)
    : settle;
  const findAnswer = createFindAnswer({
    slots,
    apiKeyOf: deps.keys.of,
    metrics,
    history: deps.history,
    log,
    tracing: deps.tracing,
    callBackend: createCallBackend({ agents, timeouts }),
    ownFields: createOwnFields({ plans: () => currentPlanFile().plans, pepper: config.keyPeppers[0] }),
    firstTokenMs: () => timeouts().firstTokenMs,
    models: () => currentPlanFile().models,
  });
  const requests = owned.use(
    openRequestWork({
      ...deps,
      keptAnswers: createKeptAnswers(config.keyPeppers),
      findAnswer,
      startRun: createStartRun(redis),
      settle,
    }),
  );
  metrics.observeBatches(createObserveBatches(deps.store.batches));
  const affinityKeys = createAffinityKeys(config.keyPeppers[0]);
  const batches = openBatches({ ...deps, findAnswer, settle: settleLine, affinityKeys });
  return {
    work: { interactive: requests.work, batch: batches.work },
    batches,
    [Symbol.dispose]: () => owned.dispose(),
  };
}
