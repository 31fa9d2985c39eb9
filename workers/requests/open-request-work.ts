import { ApiError } from '../../shared/errors.ts';
import type { KeptAnswers } from '../../shared/jobs/idempotency.ts';
import { inferenceJobSchema } from '../../shared/jobs/inference-job.ts';
import type { Settle } from '../../shared/limits/settle.ts';
import { type PlanFile, queueMsMax } from '../../shared/plan-file/plan-file.ts';
import type { AnswerBudget } from '../../shared/process/answer-budget.ts';
import type { Log } from '../../shared/process/log.ts';
import type { LimitMetrics } from '../../shared/process/metrics.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import type { Tracing } from '../../shared/tracing/span.ts';
import { promptUsage } from '../failover/answer-usage.ts';
import type { FindAnswer } from '../failover/find-answer.ts';
import { createRunLedger } from '../failover/run.ts';
import type { LaneWork } from '../queue/lane-worker.ts';
import type { PieceReaders } from '../replies/send-pieces.ts';
import { createReplyFrames, createReplySender, type ReplyFrames } from '../replies/send-reply.ts';
import { watchReaders } from '../replies/watch-readers.ts';
import { createEndRequest, type EndRequest } from './end-request.ts';
import { createProcessRequest, type RequestMetrics } from './process-request.ts';
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

/**
 * Ends a job that was given up, with an error for its client. It counts as one more run, so that the ingress takes its reply as the
 * latest, after any replies of the lost runs.
 */
export function createFailLostRequest({
  startRun,
  endRequest,
  replyFrames,
}: {
  startRun: StartRun;
  endRequest: EndRequest;
  replyFrames: ReplyFrames;
}) {
  return async function failLostRequest({ data, taken }: { data: unknown; taken: number }): Promise<void> {
    const takenAt = performance.now();
    const job = inferenceJobSchema.parse(data);
    const { outcome, run } = await startRun({ ...job, taken });
    const { replyTo, requestId } = job;
    const reply = createReplySender({ frames: replyFrames, replyTo, requestId, run, onGone: () => {} });
    const error = new ApiError('INTERNAL_ERROR', 'The request could not be run.');
    if (outcome === 'interrupted') return reply.interrupted((await promptUsage(job)).promptTokens);
    if (outcome === 'settled' || outcome === 'gone') return reply.error(error);
    if (outcome === 'superseded') return;
    const ledger = createRunLedger({ run, queueWaitMs: 0 });
    await endRequest({ job, run, taken, takenAt, reply, ledger }, { outcome: 'failed', error });
  };
}
