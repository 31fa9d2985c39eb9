import type { Counter } from 'prom-client';
import type { BatchResult, BatchRetry } from '../../../shared/batches/batch.ts';
import type { ApiError } from '../../../shared/errors.ts';
import type { Release } from '../../../shared/limits/release.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { BatchStore } from '../../../shared/store/batches/batch-store.ts';
import type { Outcome } from '../../answers/run.ts';
import { createRunLedger } from '../../answers/run-ledger.ts';
import type { StartRun } from '../../leases/start-run.ts';
import type { BatchJob, LineRequest } from './batch-job.ts';
import type { EndLine } from './end-line.ts';
import type { SendLineEvent } from './line-events.ts';
import { failedLine } from './line-results.ts';
import { retryAfterLoss } from './retry-line.ts';
import type { WriteResult } from './write-results.ts';

/** One taking of a line's job. */
export type TakenLine = { job: LineRequest; taken: number };

type Postponement = { news: 'later'; pauseMs: number; cause?: unknown };

/** How a taking of a line ends that has no result to write. Each fails as the store and Redis do, and can be repeated then. */
export interface FinishLineAttempt {
  /** A result stands: it is charged, under the request that has brought it, and any other request is given back. */
  settle(line: TakenLine, result: BatchResult): Promise<Outcome>;
  /** It is to be tried again, as `retry` says, under the next number. */
  retry(line: TakenLine, retry: BatchRetry): Promise<Outcome>;
  /** Nothing came of this request, and no backend is to blame: after a few of them its line ends with this error. */
  lose(line: TakenLine, error: ApiError, signal: AbortSignal): Promise<Outcome>;
  /** It is not to be run, at least not as this request; `hasEnded` where a result was written that charges nothing. */
  drop(line: TakenLine, hasEnded?: 'has ended'): Promise<Outcome>;
  /** The same job comes again after a while. */
  postpone(job: BatchJob, why: Postponement): Outcome;
}

const lane = 'batch';
/** Later than any taking of a job. */
export const afterAll = 1_000_000_000;
const done: Outcome = { outcome: 'done' };

export function createFinishLineAttempt(deps: {
  store: Pick<BatchStore, 'findLine' | 'recordRetry'>;
  findUsageRecord: (requestId: string) => Promise<unknown>;
  startRun: StartRun;
  release: Release;
  writeResult: WriteResult;
  endLine: EndLine;
  sendLineEvent: SendLineEvent;
  metrics: { batchLineRetries: Counter<'reason'> };
  log: Log;
}): FinishLineAttempt {
  const { store, metrics, log } = deps;

  /**
   * Another taking of the same job, frozen until now, may have stored an answer that it could not settle. Who gives its lease
   * back looks for that afterwards, and a result that is stored later than this look is settled by whoever has stored it.
   * False where there was none.
   */
  async function giveBack({ job, taken }: TakenLine): Promise<boolean> {
    const released = await deps.release({ ...job, lane, run: 'any' });
    if (released !== 'released') return false;
    const result = (await store.findLine(job.batch, job.line))?.result;
    if (result === undefined || !isToCharge(job, result)) return false;
    await endWithoutLease({ job, taken }, result, 1);
    return true;
  }

  async function endWithoutLease({ job, taken }: TakenLine, result: BatchResult, run: number): Promise<void> {
    const now = Date.now();
    const admission = { admittedAt: now, deadline: now, overage: false };
    await deps.endLine({ job, run, taken, ledger: createRunLedger({ run, queueWaitMs: 0 }), admission }, result);
  }

  async function drop(line: TakenLine, hasEnded?: 'has ended'): Promise<Outcome> {
    const news = hasEnded ? ({ news: 'ended', answered: false } as const) : ({ news: 'dropped' } as const);
    if (!(await giveBack(line))) deps.sendLineEvent(line.job, news);
    return done;
  }

  /** The next request is noted before this one's lease is given back: whoever dies in between leaves a job that is dropped. */
  async function again(line: TakenLine, retry: BatchRetry): Promise<Outcome> {
    const isNoted = await store.recordRetry(retry);
    if (!(await giveBack(line))) deps.sendLineEvent(line.job, isNoted ? { news: 'again', retry } : { news: 'dropped' });
    return done;
  }

  /** It was never run, nor will be; or it was settled so long ago that only its record is left of that. */
  async function isOver(job: LineRequest, result: BatchResult): Promise<boolean> {
    return !isToCharge(job, result) || (await deps.findUsageRecord(job.requestId)) !== undefined;
  }

  async function charge({ job, taken }: TakenLine, result: BatchResult): Promise<Outcome> {
    const { run, outcome } = await deps.startRun({ ...job, taken, lane });
    if (outcome === 'superseded') return done;
    if (outcome === 'gone' && (await isOver(job, result))) return drop({ job, taken }, 'has ended');
    await endWithoutLease({ job, taken }, result, run);
    return done;
  }

  return {
    drop,
    retry: again,

    async settle(line, result) {
      const { job } = line;
      if (result.requestId === job.requestId) return charge(line, result);
      // Whoever has stored it may have died before it was settled, and its job is gone.
      await charge({ job: { ...job, requestId: result.requestId }, taken: afterAll }, result);
      return drop(line, 'has ended');
    },

    async lose(line, error, signal) {
      const { job } = line;
      const retry = retryAfterLoss(job, Date.now());
      metrics.batchLineRetries.inc({ reason: 'lost' });
      if (retry !== undefined) return again(line, retry);
      await deps.writeResult(failedLine(job, error), signal);
      return drop(line, 'has ended');
    },

    postpone(job, { news, pauseMs, cause }) {
      if (cause !== undefined) log.debug({ err: cause, requestId: job.requestId }, 'a line of a batch was put off');
      deps.sendLineEvent(job, { news });
      return { outcome: 'later', job, pauseMs };
    },
  };
}

function isToCharge({ requestId }: LineRequest, result: BatchResult): boolean {
  return result.requestId === requestId && result.promptTokens + result.completionTokens > 0;
}
