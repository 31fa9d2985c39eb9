import type { Counter } from 'prom-client';
import type { BatchResult, BatchRetry } from '../../../shared/batches/batch.ts';
import { type ApiError, deadlineExceeded } from '../../../shared/errors.ts';
import type { Release } from '../../../shared/limits/release.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { BatchStore } from '../../../shared/store/records/batch-store.ts';
import { createRunLedger, type JobOutcome } from '../../failover/run.ts';
import type { StartRun } from '../../requests/start-run.ts';
import type { BatchJob, LineRequest } from './batch-job.ts';
import type { EndLine } from './end-line.ts';
import type { LineChange, SendLineEvent } from './line-events.ts';
import { failedLine } from './line-results.ts';
import type { WriteResult } from './write-results.ts';

/** A line's job, and how many times it was taken from its queue. */
export type TakenLine = { job: LineRequest; taken: number };

/**
 * Why a line runs later. `clients`: they use this worker, and answers of its account come first. `limits`: those of its account.
 * `room`: results of lines that run may fill its account's files. `backends`: they have no room. `unavailable`: the store or Redis.
 */
export const pauseReasons = ['clients', 'limits', 'room', 'backends', 'unavailable'] as const;
type Postponement = { pauseMs: number; reason: (typeof pauseReasons)[number]; cause?: unknown };

/** Ends an attempt that has no result to write. Each method fails as the store and Redis do, and can then be repeated. */
export interface FinishLineAttempt {
  /** The line has this result. Charges it to the request that produced it, and releases the lease of any other request. */
  settle(line: TakenLine, result: BatchResult): Promise<JobOutcome>;
  /** The line is tried again as `retry` says, as its next request. */
  retry(line: TakenLine, retry: BatchRetry): Promise<JobOutcome>;
  /** The request failed, but no backend caused it. After three such losses the line ends with this error. */
  lose(line: TakenLine, error: ApiError, signal: AbortSignal): Promise<JobOutcome>;
  /** The request's time is over. It is lost if `isLost`; otherwise it only waited, and the line continues as the next request. */
  expire(line: TakenLine, isLost: boolean, signal: AbortSignal): Promise<JobOutcome>;
  /** The line is not run, at least not as this request. Pass `has ended` if a result was written that charges nothing. */
  drop(line: TakenLine, hasEnded?: 'has ended'): Promise<JobOutcome>;
  /** The same job runs again after a pause. */
  postpone(job: BatchJob, why: Postponement): JobOutcome;
}

const lane = 'batch';
const unavailableMs = 2_000;
/** Higher than the count of any job. */
export const afterAll = 1_000_000_000;
const done: JobOutcome = { outcome: 'done' };

type Deps = {
  store: Pick<BatchStore, 'findLine' | 'recordRetry'>;
  findUsageRecord: (requestId: string) => Promise<unknown>;
  startRun: StartRun;
  release: Release;
  writeResult: WriteResult;
  endLine: EndLine;
  sendLineEvent: SendLineEvent;
  metrics: { batchLineRetries: Counter<'endpoint' | 'reason'>; batchLinePauses: Counter<'reason'> };
  log: Log;
};

export function createFinishLineAttempt(deps: Deps): FinishLineAttempt {
  const { store, metrics, log } = deps;
  const { releaseLease, charge } = createCharging(deps);

  async function releaseAndSend(line: TakenLine, change: LineChange): Promise<JobOutcome> {
    if (!(await releaseLease(line))) deps.sendLineEvent(line.job, change);
    return done;
  }

  async function drop(line: TakenLine, hasEnded?: 'has ended'): Promise<JobOutcome> {
    return releaseAndSend(line, hasEnded ? { type: 'ended', answered: false } : { type: 'dropped' });
  }

  /** Records the next request before it releases the lease: if the process dies in between, the job that is left is dropped. */
  async function retry(line: TakenLine, next: BatchRetry): Promise<JobOutcome> {
    const isRecorded = await store.recordRetry(next);
    return releaseAndSend(line, isRecorded ? { type: 'retry', retry: next } : { type: 'dropped' });
  }

  async function lose(line: TakenLine, error: ApiError, signal: AbortSignal): Promise<JobOutcome> {
    const next = retryAfterLoss(line.job, Date.now());
    metrics.batchLineRetries.inc({ endpoint: line.job.endpoint, reason: 'lost' });
    if (next !== undefined) return retry(line, next);
    await deps.writeResult(failedLine(line.job, error), line.job, signal);
    return drop(line, 'has ended');
  }

  async function chargeOrDrop(line: TakenLine, result: BatchResult): Promise<JobOutcome> {
    return (await charge(line, result)) === 'over' ? drop(line, 'has ended') : done;
  }

  return {
    drop,
    retry,
    lose,

    async settle(line, result) {
      const { job } = line;
      if (result.requestId === job.requestId) return chargeOrDrop(line, result);
      // The worker that stored the result may have died before it settled it, and the job of that request is gone.
      await chargeOrDrop({ job: { ...job, requestId: result.requestId }, taken: afterAll }, result);
      return drop(line, 'has ended');
    },

    async expire(line, isLost, signal) {
      if (isLost) return lose(line, deadlineExceeded(), signal);
      return retry(line, retryAfterWaiting(line.job, Date.now()));
    },

    postpone(job, { pauseMs, reason, cause }) {
      metrics.batchLinePauses.inc({ reason });
      if (cause !== undefined) log.debug({ err: cause, requestId: job.requestId }, 'a line of a batch was postponed');
      deps.sendLineEvent(job, { type: 'postponed' });
      return { outcome: 'later', job, pauseMs };
    },
  };
}

/** Postpones a line because the store or Redis is unavailable. */
export function unavailable(cause: unknown): Postponement {
  return { pauseMs: unavailableMs, reason: 'unavailable', cause };
}

/** Ends the lease of a request that has no run of its own to end it. */
function createCharging({
  store,
  findUsageRecord,
  startRun,
  release,
  endLine,
}: Pick<Deps, 'store' | 'findUsageRecord' | 'startRun' | 'release' | 'endLine'>) {
  return {
    /**
     * Another process that took the same job, and was frozen, may have stored an answer that it could not settle. So this looks for a
     * result after the release. If a result is stored later than that, the process that stored it settles it. Returns whether it
     * charged a result.
     */
    async releaseLease({ job, taken }: TakenLine): Promise<boolean> {
      const released = await release({ ...job, lane, run: 'any' });
      if (released !== 'released') return false;
      const result = (await store.findLine(job.batch, job.line))?.result;
      if (result === undefined || !isToCharge(job, result)) return false;
      await endWithoutLease({ job, taken }, result, 1);
      return true;
    },

    /** Returns `over` if the request never ran and never will, or was settled so long ago that only its usage record is left. */
    async charge({ job, taken }: TakenLine, result: BatchResult): Promise<'charged' | 'superseded' | 'over'> {
      const { run, outcome } = await startRun({ ...job, taken, lane });
      if (outcome === 'superseded') return 'superseded';
      if (outcome === 'gone' && (await isOver(job, result))) return 'over';
      await endWithoutLease({ job, taken }, result, run);
      return 'charged';
    },
  };

  async function isOver(job: LineRequest, result: BatchResult): Promise<boolean> {
    return !isToCharge(job, result) || (await findUsageRecord(job.requestId)) !== undefined;
  }

  async function endWithoutLease({ job, taken }: TakenLine, result: BatchResult, run: number): Promise<void> {
    const now = Date.now();
    const admission = { admittedAt: now, deadline: now, overage: false };
    await endLine({ job, run, taken, ledger: createRunLedger({ run, queueWaitMs: 0 }), admission }, result);
  }
}

function isToCharge({ requestId }: LineRequest, result: BatchResult): boolean {
  return result.requestId === requestId && result.promptTokens + result.completionTokens > 0;
}

type TriedLine = Pick<BatchJob, 'batch' | 'line' | 'number' | 'failures' | 'losses'>;

/** After this many requests that failed without a backend's fault, a line ends in the error file. */
const lossesMax = 3;

const firstPauseMs = 1_000;
/** A line that its backends can never answer costs one call in this time, until its window ends. */
const pauseMsMax = 300_000;

/** The next request of a line whose backends failed. Its pause grows, and has jitter so that lines do not come all at once. */
export function retryAfterFailure(tried: TriedLine, now: number, random: () => number = Math.random): BatchRetry {
  const failures = tried.failures + 1;
  const pauseMs = Math.min(pauseMsMax, firstPauseMs * 2 ** Math.min(failures - 1, 10)) * (0.5 + random() / 2);
  return { ...next(tried), failures, notBefore: new Date(now + pauseMs) };
}

/** The next request of a line whose last one was lost. Undefined if there were too many losses. */
export function retryAfterLoss(tried: TriedLine, now: number): BatchRetry | undefined {
  const losses = tried.losses + 1;
  return losses >= lossesMax ? undefined : { ...next(tried), losses, notBefore: new Date(now) };
}

/** The next request of a line for which no backend was called. It continues to wait for capacity. */
export function retryAfterWaiting(tried: TriedLine, now: number): BatchRetry {
  return { ...next(tried), notBefore: new Date(now) };
}

function next({ batch, line, number, failures, losses }: TriedLine): Omit<BatchRetry, 'notBefore'> {
  return { batch, line, number: number + 1, failures, losses };
}
