import type { KeptAnswers } from '../../shared/jobs/idempotency.ts';
import type { Settle } from '../../shared/limits/settle.ts';
import { type PlanFile, queueMsMax } from '../../shared/plan-file/plan-file.ts';
import type { AnswerBudget } from '../../shared/process/answer-budget.ts';
import type { Log } from '../../shared/process/log.ts';
import type { LimitMetrics } from '../../shared/process/metrics.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import type { Tracing } from '../../shared/tracing/span.ts';
import type { FindAnswer } from '../failover/find-answer.ts';
import type { LaneWork } from '../queue/lane-worker.ts';
import type { PieceReaders } from '../replies/send-pieces.ts';
import { createReplyFrames } from '../replies/send-reply.ts';
import { watchReaders } from '../replies/watch-readers.ts';
import { createEndRequest } from './end-request.ts';
import { createFailLostRequest, createProcessRequest, type RequestMetrics } from './process-request.ts';
import { createRenewLeases, startLeaseHeartbeat } from './start-lease-heartbeat.ts';
import { createMarkStreaming, type StartRun } from './start-run.ts';

/** Opens all that a worker needs for requests: the work of the interactive lane. */
export function openRequestWork(deps: {
  currentPlanFile: () => Pick<PlanFile, 'models' | 'timeouts'>;
  redis: Redis;
  replyRedis: Redis;
  upkeepRedis: Redis;
  replyUpkeepRedis: Redis;
  /** Replies use the same connection as settling. */
  oneConnection: boolean;
  keptAnswers: KeptAnswers;
  startRun: StartRun;
  settle: Settle;
  findAnswer: FindAnswer;
  answers: AnswerBudget;
  pieceReaders: PieceReaders;
  /** This worker's control stream. */
  control: string;
  metrics: LimitMetrics & RequestMetrics;
  tracing: Tracing | undefined;
  log: Log;
}): Disposable & { work: LaneWork } {
  const { currentPlanFile, redis, replyRedis, oneConnection, startRun, settle, findAnswer, control, metrics, log } =
    deps;
  const queueMs = () => queueMsMax(currentPlanFile());
  const owned = new DisposableStack();
  const endRequest = createEndRequest({ settle, oneConnection, keptAnswers: deps.keptAnswers, metrics, log });
  const replyFrames = createReplyFrames({ redis: replyRedis });
  const leases = owned.use(startLeaseHeartbeat({ renewLeases: createRenewLeases(deps.upkeepRedis), queueMs, log }));
  const processRequest = createProcessRequest({
    markStreaming: createMarkStreaming(redis),
    followReader: owned.use(watchReaders({ redis: deps.replyUpkeepRedis, log })).follow,
    currentPlanFile,
    startRun,
    findAnswer,
    endRequest,
    replyFrames,
    leases,
    metrics,
    log,
    control,
    answers: deps.answers,
    pieceReaders: deps.pieceReaders,
    tracing: deps.tracing,
  });
  const failLost = createFailLostRequest({ startRun, endRequest, replyFrames });
  return {
    work: { processJob: processRequest, failLost, onRecovered: leases.extendRequeued },
    [Symbol.dispose]: () => owned.dispose(),
  };
}
