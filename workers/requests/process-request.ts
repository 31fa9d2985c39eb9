import { Counter, Histogram, type Registry } from 'prom-client';
import { answerTooLarge } from '../../shared/endpoints/answers/parse-backend-json.ts';
import {
  ApiError,
  clientGone,
  deadlineExceeded,
  replyLost,
  temporarilyUnavailable,
  toApiError,
  upstreamsExhausted,
  waitedTooLong,
} from '../../shared/errors.ts';
import { mayKeepAnswer } from '../../shared/jobs/idempotency.ts';
import { type InferenceJob, inferenceJobSchema } from '../../shared/jobs/inference-job.ts';
import { type PlanFile, queueMsOf } from '../../shared/plan-file/plan-file.ts';
import type { AnswerBudget } from '../../shared/process/answer-budget.ts';
import type { Log } from '../../shared/process/log.ts';
import { durationBuckets } from '../../shared/process/metrics.ts';
import { holderOf } from '../../shared/store/records/account.ts';
import type { Tracing } from '../../shared/tracing/span.ts';
import { createWatchdog } from '../backend-client/exchange.ts';
import { type AnswerOutcome, refusedBy, tooLongFor, type UsageCounters } from '../failover/answer-outcome.ts';
import { interrupted, type UsageCounter } from '../failover/answer-request.ts';
import { promptUsage, unknownUsage } from '../failover/answer-usage.ts';
import type { FindAnswer } from '../failover/find-answer.ts';
import {
  createRunLedger,
  type JobOutcome,
  type ProcessJob,
  type Run,
  type StartedRun,
  type StopReason,
} from '../failover/run.ts';
import { traceRun } from '../failover/trace-run.ts';
import type { PieceReaders } from '../replies/send-pieces.ts';
import { createReplySender, type ReplyFrames } from '../replies/send-reply.ts';
import type { ReaderWatch } from '../replies/watch-readers.ts';
import type { EndRequest, RequestEnd } from './end-request.ts';
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
    const queueWaitMs = 'now' in start ? Math.max(0, start.now - job.admittedAt) : 0;
    const ledger = createRunLedger({ run, queueWaitMs });
    const { served } = ledger;
    const onFirstText = () => {
      ledger.sendText();
      markStreaming(job, run);
    };
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

function createConcludeRequest({
  endRequest,
  leases,
  log,
}: {
  endRequest: EndRequest;
  leases: Pick<LeaseHeartbeat, 'extendRequeued'>;
  log: Log;
}) {
  /** Ends a request by the result of its run, or puts it back into its queue. Fails with the error of a `fault`. */
  return async function concludeRequest(run: StartedRun, found: AnswerOutcome): Promise<JobOutcome> {
    const { received } = found;
    switch (found.outcome) {
      case 'answered':
        return end(run, { outcome: 'completed', usage: found.answer.usage, answer: found.answer });
      case 'refused':
        return fail(run, refusedBy(found.by, 'request'));
      case 'too_long':
        return fail(run, tooLongFor(run.job, found.numbers));
      case 'exhausted':
        return fail(run, upstreamsExhausted(run.job.tier, found.attempted, found.retryAfterMs));
      case 'interrupted':
        return fail(run, interrupted(), received);
      case 'too_large': {
        // It was produced, as for a client that leaves.
        const usage = await (found.produced?.() ?? unknownUsage(run.job));
        return end(run, { outcome: 'failed', error: answerTooLarge(), usage });
      }
      case 'late':
        return fail(run, waitedTooLong());
      case 'stopped':
        return stop(run, found);
      case 'fault':
        throw found.error;
    }
  };

  async function stop(run: StartedRun, { received, produced }: UsageCounters): Promise<JobOutcome> {
    const reason = run.signal.reason as StopReason; // nothing else aborts this signal
    const { job, ledger } = run;
    log.debug({ requestId: job.requestId, reason }, 'a run was stopped');
    switch (reason) {
      case 'lock lost':
        // Another worker has the job, and ends the request.
        run.span?.set({ 'svc.outcome': 'superseded' });
        return { outcome: 'done' };
      case 'deadline':
        return fail(run, deadlineExceeded(), received);
      case 'shutdown':
        return received === undefined ? requeue(run) : fail(run, interrupted(), received);
      default: {
        // The client is gone, but the answer was produced and is charged. A call that had failed before has produced nothing
        // (contract.md#d7-clients-that-leave).
        const wasCalling = ledger.attempts().at(-1)?.outcome === 'stopped';
        const usage = wasCalling ? (produced?.() ?? unknownUsage(job)) : received?.();
        return end(run, { outcome: 'cancelled', error: clientGone(), usage: await usage });
      }
    }
  }

  async function requeue({ job, run, ledger, span }: StartedRun): Promise<JobOutcome> {
    span?.set({ 'svc.outcome': 'requeued' });
    await leases.extendRequeued([job]);
    const earlierRuns = [...job.earlierRuns, { run, attempts: [...ledger.attempts()] }];
    return { outcome: 'requeue', job: { ...job, earlierRuns } };
  }

  /** What was delivered is charged. */
  async function fail(run: StartedRun, error: ApiError, received?: UsageCounter): Promise<JobOutcome> {
    return end(run, { outcome: 'failed', error, usage: await received?.() });
  }

  async function end(run: StartedRun, ending: RequestEnd): Promise<JobOutcome> {
    await endRequest(run, ending);
    return { outcome: 'done' };
  }
}

export type RequestMetrics = ReturnType<typeof createRequestMetrics>;

export function createRequestMetrics(registry: Registry) {
  const registers = [registry];
  return {
    queueWait: new Histogram({
      name: 'svc_queue_wait_seconds',
      help: 'Time from the admission of a request to the start of its job',
      labelNames: ['pool', 'lane', 'endpoint'],
      buckets: durationBuckets,
      registers,
    }),
    notStarted: new Counter({
      name: 'svc_jobs_not_started_total',
      help: 'Jobs that called no backend, by reason: late, expired, interrupted, settled, gone or superseded',
      labelNames: ['pool', 'endpoint', 'reason'],
      registers,
    }),
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
