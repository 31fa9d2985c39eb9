import type { Counter } from 'prom-client';
import type { BatchResult } from '../../../shared/batches/batch.ts';
import { isOver } from '../../../shared/batches/batch-states.ts';
import { answerTooLarge } from '../../../shared/endpoints/answers/parse-backend-json.ts';
import { unchallengedMs } from '../../../shared/jobs/queues.ts';
import type { BatchStore } from '../../../shared/store/records/batch-store.ts';
import { type AnswerOutcome, refusedBy, tooLongFor, type UsageCounters } from '../../failover/answer-outcome.ts';
import { promptUsage, unknownUsage } from '../../failover/answer-usage.ts';
import type { CallingRun, JobOutcome, StopReason } from '../../failover/run.ts';
import { textOfBody } from '../../replies/send-pieces.ts';
import type { BatchJob } from './batch-job.ts';
import type { EndLine, LineRun } from './end-line.ts';
import { type FinishLineAttempt, retryAfterFailure, retryAfterWaiting, unavailable } from './finish-line-attempt.ts';
import { answeredLine, failedLine, refusedLine, unfinished } from './line-results.ts';
import type { WriteResult } from './write-results.ts';

/**
 * A run of a line that may call backends. `takenAt` is when this worker took the job, by `now`; `hadTime` is whether at least half of the
 * request's time was left when the run began.
 */
export type StartedLine = LineRun & CallingRun & { job: BatchJob; takenAt: number; hadTime: boolean };

const done: JobOutcome = { outcome: 'done' };
const fullMs = 1_000;

export function createConcludeLine(deps: {
  store: Pick<BatchStore, 'findLine'>;
  finishAttempt: FinishLineAttempt;
  writeResult: WriteResult;
  endLine: EndLine;
  metrics: { batchLineRetries: Counter<'endpoint' | 'reason'> };
  now: () => number;
}) {
  const { store, finishAttempt, writeResult, endLine, metrics, now } = deps;

  /** Ends a run by what its backends returned, or by the reason for which it was stopped. */
  return async function concludeLine(run: StartedLine, found: AnswerOutcome, signal: AbortSignal): Promise<JobOutcome> {
    const { job } = run;
    switch (found.outcome) {
      case 'answered':
        return end(run, answeredLine(job, textOfBody(found.answer.body ?? ''), found.answer.usage), signal);
      case 'refused':
        return end(run, refusedLine(job, refusedBy(found.by, 'body')), signal);
      case 'too_long':
        return end(run, refusedLine(job, tooLongFor(job, found.numbers)), signal);
      case 'too_large': {
        const usage = await (found.produced?.() ?? unknownUsage(job));
        return end(run, failedLine(job, answerTooLarge(), usage), signal);
      }
      case 'exhausted':
      case 'interrupted':
        run.span?.set({ 'svc.outcome': 'retried' });
        run.span?.end(found.outcome);
        metrics.batchLineRetries.inc({ endpoint: job.endpoint, reason: 'failed' });
        return finishAttempt.retry(run, retryAfterFailure(job, Date.now()));
      case 'late':
        run.span?.set({ 'svc.outcome': 'postponed' });
        return finishAttempt.postpone(withRun(run), { pauseMs: fullMs, reason: 'backends' });
      case 'stopped':
        return stop(run, found, signal);
      case 'fault':
        throw found.error;
    }
  };

  async function stop(run: StartedLine, { produced }: UsageCounters, signal: AbortSignal): Promise<JobOutcome> {
    const reason = run.signal.reason as StopReason; // nothing else aborts this signal
    const { job, ledger } = run;
    run.span?.set({ 'svc.outcome': 'stopped' }); // unless the line ends below
    // The next request is admitted when the account is no longer suspended.
    if (reason === 'account suspended') return finishAttempt.retry(run, retryAfterWaiting(job, Date.now()));
    if (reason === 'deadline') return finishAttempt.expire(run, run.hadTime && ledger.attempts().length > 0, signal);
    if (reason !== 'batch cancelled' && reason !== 'batch expired') return handBack(withRun(run), reason);
    // What was produced is charged, although it is not delivered. A call that had already failed produced nothing.
    const wasCalling = ledger.attempts().at(-1)?.outcome === 'stopped';
    const error = reason === 'batch expired' ? unfinished.expired : unfinished.cancelled;
    const usage = wasCalling ? await (produced?.() ?? promptUsage(job)) : undefined;
    return end(run, failedLine(job, error, usage), signal);
  }

  /** After the result is stored, a failure to settle it is no reason to run the line again. */
  async function end(run: StartedLine, result: BatchResult, signal: AbortSignal): Promise<JobOutcome> {
    if (now() - run.takenAt > unchallengedMs && (await isCleared(run.job))) return finishAttempt.drop(run);
    const stored = await writeResult(result, run.job, signal);
    return endLine(run, stored).then(
      () => done,
      (error: unknown) => finishAttempt.postpone(withRun(run), unavailable(error)),
    );
  }

  /** A worker that was frozen for long may have lost the line to another one, and its batch may be cleared by now. */
  async function isCleared({ batch, line: number }: BatchJob): Promise<boolean> {
    const line = await store.findLine(batch, number);
    return line === undefined || (line.result === undefined && isOver(line));
  }
}

/** The outcome for a job that this worker must give up. If its lock was lost, another worker has the job, and ends the line. */
export function handBack(job: BatchJob, reason: unknown): JobOutcome {
  return reason === ('lock lost' satisfies StopReason) ? done : { outcome: 'requeue', job };
}

function withRun({ job, run, ledger }: StartedLine): BatchJob {
  return { ...job, earlierRuns: [...job.earlierRuns, { run, attempts: [...ledger.attempts()] }] };
}
