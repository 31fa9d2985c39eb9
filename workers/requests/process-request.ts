import type { AnswerBudget } from '../../shared/bytes/answer-budget.ts';
import { holderOf } from '../../shared/caller.ts';
import { deadlineExceeded, replyLost, temporarilyUnavailable, toApiError, waitedTooLong } from '../../shared/errors.ts';
import { mayKeepAnswer } from '../../shared/idempotency/claim.ts';
import { type InferenceJob, inferenceJobSchema } from '../../shared/jobs/inference-job.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { queueMsOf } from '../../shared/plan-file/queue-times.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Tracing } from '../../shared/tracing/span.ts';
import { createWatchdog } from '../backend-client/watchdog.ts';
import type { AnswerOutcome } from '../failover/answer-outcome.ts';
import { promptUsage } from '../failover/answer-usage.ts';
import type { FindAnswer } from '../failover/find-answer.ts';
import type { ProcessJob, Run, StartedRun, StopReason } from '../failover/run.ts';
import { createRunLedger } from '../failover/run-ledger.ts';
import { traceRun } from '../failover/trace-run.ts';
import type { ReplyFrames } from '../replies/reply-frames.ts';
import type { PieceReaders } from '../replies/send-pieces.ts';
import { createReplySender } from '../replies/send-reply.ts';
import type { ReaderWatch } from '../replies/watch-readers.ts';
import { createConcludeRequest } from './conclude-request.ts';
import type { EndRequest } from './end-request.ts';
import type { RequestMetrics } from './request-metrics.ts';
import type { LeaseHeartbeat } from './start-lease-heartbeat.ts';
import type { MarkStreaming, Start, StartRun } from './start-run.ts';

const lane = 'interactive';

/** Runs one job from its start to its reply. However it ends, the client has been answered, or is known to be gone. */
export function createProcessRequest(deps: {
  currentPlanFile: () => Pick<PlanFile, 'models' | 'timeouts'>;
  startRun: StartRun;
  markStreaming: MarkStreaming;
  findAnswer: FindAnswer;
  endRequest: EndRequest;
  replyFrames: ReplyFrames;
  answers: Pick<AnswerBudget, 'hold'>;
  pieceReaders: PieceReaders;
  followReader: ReaderWatch['follow'];
  leases: Pick<LeaseHeartbeat, 'hold' | 'extendRequeued'>;
  /** This worker's control stream, on which a run can be cancelled. */
  control: string;
  metrics: RequestMetrics;
  /** Undefined if requests are not traced. */
  tracing?: Tracing | undefined;
  log: Log;
}): ProcessJob {
  const { endRequest, replyFrames: frames, metrics, log } = deps;
  const concludeRequest = createConcludeRequest(deps);

  return async function processRequest({ data, taken, signal, reservation }) {
    const takenAt = performance.now();
    const planFile = deps.currentPlanFile();
    const job = inferenceJobSchema.parse(data);
    const start = await deps.startRun({ ...job, taken });
    const { run } = start;
    const { replyTo, requestId } = job;
    using deadline = createWatchdog([signal]);
    // An answer that is kept is wanted by the next attempt, too.
    const isKept = mayKeepAnswer(job.claim);
    const onGone = () => isKept || deadline.abort('ingress gone' satisfies StopReason);
    const onFirstText = () => markStreaming(job, run);
    const queueWaitMs = 'now' in start ? Math.max(0, start.now - job.admittedAt) : 0;
    const ledger = createRunLedger({ run, queueWaitMs });
    const { served } = ledger;
    using held = deps.answers.hold(holderOf(job));
    const followReader = (onReaderGone: () => void) => deps.followReader(replyTo, onReaderGone);
    const pieces = { readers: deps.pieceReaders, held, followReader, signal: deadline.signal };
    const reply = createReplySender({ frames, replyTo, requestId, run, onGone, onFirstText, served, pieces });
    using span = traceRun(deps.tracing, { job, run, lane, queueWaitMs });
    const common: Run = { job, run, taken, takenAt, reply, ledger, span };
    const pool = planFile.models[job.model]?.pool ?? 'none';
    if (start.outcome !== 'run') {
      span?.set({ 'svc.outcome': start.outcome });
      metrics.notStarted.inc({ pool, endpoint: job.endpoint, reason: start.outcome });
      await endUnstarted(common, { outcome: start.outcome, endRequest });
      return { outcome: 'done' };
    }

    metrics.queueWait.observe({ pool, lane, endpoint: job.endpoint }, queueWaitMs / 1000);
    deadline.expectWithin(start.remainingMs, () => 'deadline' satisfies StopReason);
    reply.started(deps.control, queueWaitMs);
    const releaseLease = deps.leases.hold(job);
    const unfollow = isKept ? () => {} : followReader(onGone);
    const waitMs = Math.max(job.startBy - start.now, run > 1 ? queueMsOf(planFile, job.model) : 0);
    const startedAt = performance.now();
    const started: StartedRun = {
      ...common,
      lane,
      held,
      signal: deadline.signal,
      reservation,
      leftMs: () => startedAt + start.remainingMs - performance.now(),
      mayWaitMs: () => startedAt + waitMs - performance.now(),
    };
    let found: AnswerOutcome | undefined;
    try {
      found = await deps.findAnswer(started);
      return await concludeRequest(started, found);
    } catch (error) {
      log.error({ err: error, requestId }, 'a request failed because of an internal error');
      await endRequest(started, { outcome: 'failed', error: toApiError(error), usage: await found?.received?.() });
      return { outcome: 'done' };
    } finally {
      unfollow();
      releaseLease();
    }
  };

  /** Not awaited: an ingress that has received text follows no other run. */
  function markStreaming({ account, requestId }: InferenceJob, run: number): void {
    deps.markStreaming({ account, requestId, run }).catch((error: unknown) => {
      log.warn({ err: error, requestId }, 'a lease could not be marked as streaming');
    });
  }
}

type FailedStart = { outcome: Exclude<Start['outcome'], 'run'>; endRequest: EndRequest };

/** Ends a request whose run may not call a backend. If another worker has taken over the job, that worker ends the request. */
async function endUnstarted(run: Run, { outcome, endRequest }: FailedStart): Promise<void> {
  if (outcome === 'late') await endRequest(run, { outcome: 'failed', error: waitedTooLong() });
  if (outcome === 'expired') await endRequest(run, { outcome: 'failed', error: deadlineExceeded() });
  // The ingress settles it, because the ingress knows what it has delivered.
  if (outcome === 'interrupted') await run.reply.interrupted((await promptUsage(run.job)).promptTokens);
  if (outcome === 'settled') await run.reply.error(replyLost(false));
  if (outcome === 'gone') await run.reply.error(temporarilyUnavailable());
}
