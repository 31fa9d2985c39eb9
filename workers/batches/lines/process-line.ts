import { ReplyError } from 'ioredis';
import type { Counter } from 'prom-client';
import type { BatchResult } from '../../../shared/batches/batch.ts';
import { isOver, isRunning } from '../../../shared/batches/batch-states.ts';
import { ApiError, deadlineExceeded, toApiError, validationError } from '../../../shared/errors.ts';
import { unchallengedMs } from '../../../shared/jobs/queues.ts';
import type { SuspensionWatch } from '../../../shared/limits/watch-suspensions.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { BatchLine, BatchStore } from '../../../shared/store/batches/batch-store.ts';
import { promptUsage } from '../../answers/answer-request.ts';
import type { FindAnswer, Found } from '../../answers/find-answer.ts';
import type { CallingRun, Outcome, ProcessJob, StopReason } from '../../answers/run.ts';
import { createRunLedger } from '../../answers/run-ledger.ts';
import { createWatchdog } from '../../exchange/watchdog.ts';
import type { Start, StartRun } from '../../leases/start-run.ts';
import type { AdmitLine } from './admit-line.ts';
import { type BatchJob, batchJobSchema } from './batch-job.ts';
import type { EndLine, LineRun } from './end-line.ts';
import type { FinishLineAttempt, TakenLine } from './finish-line-attempt.ts';
import type { SendLineEvent } from './line-events.ts';
import { answeredLine, failedLine, refusedLine, unfinished } from './line-results.ts';
import { retryAfterFailure, retryAfterWaiting } from './retry-line.ts';
import type { BatchWatch } from './watch-batches.ts';
import type { WriteResult } from './write-results.ts';

/** `takenAt` is when this worker had the job, by `now`. */
type Begun = Pick<CallingRun, 'reservation'> & { job: BatchJob; taken: number; takenAt: number };
/** A run that may call backends; `hadTime` where most of its request's time was left when it began. */
type StartedLine = Begun & LineRun & CallingRun & { hadTime: boolean };

const done: Outcome = { outcome: 'done' };
/** A line that has failed at one backend waits for so long for another one, and then makes room for one of another model. */
const waitForBackendMs = 1_000;
const fullMs = 1_000;
const lane = 'batch';

/** Nobody waits for its text. */
const neverStreamed: CallingRun['reply'] = {
  chunk: () => Promise.reject(new Error('a line of a batch is not streamed')),
};

/**
 * One line of a batch from its admission to its result. It is run while its batch is, and while it has no result; that is stored
 * first, and what is charged follows from what is stored, so that whoever dies in between leaves it to the next taking.
 */
export function createProcessLine(deps: {
  store: Pick<BatchStore, 'findLine'>;
  /** What a request has from its admission on, in milliseconds. */
  requestMs: number;
  admitLine: AdmitLine;
  startRun: StartRun;
  finishAttempt: FinishLineAttempt;
  findAnswer: FindAnswer;
  writeResult: WriteResult;
  endLine: EndLine;
  followBatch: BatchWatch['follow'];
  followAccount: SuspensionWatch['follow'];
  sendLineEvent: SendLineEvent;
  metrics: { batchLineRetries: Counter<'reason'> };
  log: Log;
  now?: () => number;
}): ProcessJob {
  const { store, finishAttempt, writeResult, endLine, metrics, log, now = () => performance.now() } = deps;

  return async function processLine({ data, taken, signal, reservation }) {
    const takenAt = now();
    const job = batchJobSchema.parse(data);
    try {
      const line = await store.findLine(job.batch, job.line);
      if (line?.result !== undefined) return await settle({ job, taken }, line.result);
      if (line === undefined || !isToRun(job, line)) return await finishAttempt.drop({ job, taken });
      return await admitAndRun({ job, taken, takenAt, reservation }, signal);
    } catch (error) {
      if (signal.aborted) return stopped(job, signal.reason);
      // What is away now is there again after a while, and the line has lost nothing by it.
      if (isPassing(error)) return finishAttempt.postpone(job, away(error));
      log.error({ err: error, requestId: job.requestId }, 'a line of a batch failed by a fault of ours');
      const losing = finishAttempt.lose({ job, taken }, toApiError(error), signal);
      return await losing.catch((cause: unknown) => finishAttempt.postpone(job, away(cause)));
    }
  };

  async function admitAndRun({ job, taken, takenAt, reservation }: Begun, signal: AbortSignal): Promise<Outcome> {
    deps.sendLineEvent(job, { news: 'started' });
    const admitted = await deps.admitLine(job);
    if (admitted.outcome === 'refused') return endUnrun({ job, taken }, failedLine(job, admitted.error), signal);
    if (admitted.outcome === 'ended') return finishAttempt.drop({ job, taken });
    if (admitted.outcome === 'later') return finishAttempt.postpone(job, { news: 'later', pauseMs: admitted.pauseMs });
    const start = await deps.startRun({ ...job, taken, lane });
    const { run } = start;
    if (start.outcome !== 'run') return notRun({ job, taken }, start, signal);

    const { admission, plan } = admitted;
    const queueWaitMs = Math.max(0, start.now - admission.admittedAt);
    const ledger = createRunLedger({ run, queueWaitMs });
    const over = new AbortController();
    const unfollowBatch = deps.followBatch(job.batch, (ending) =>
      over.abort(`batch ${endingOf(ending)}` satisfies StopReason),
    );
    const unfollowAccount = deps.followAccount(job, () => over.abort('account suspended' satisfies StopReason));
    using deadline = createWatchdog([signal, over.signal]);
    deadline.expectWithin(start.remainingMs, () => 'deadline' satisfies StopReason);
    const startedAt = now();
    const started: StartedLine = {
      ...{ job: { ...job, plan }, run, taken, ledger, admission, lane, reply: neverStreamed },
      signal: deadline.signal,
      reservation,
      leftMs: () => startedAt + start.remainingMs - now(),
      mayWaitMs: () => startedAt + waitForBackendMs - now(),
      hadTime: start.remainingMs >= deps.requestMs / 2,
      takenAt,
    };
    try {
      return await conclude(started, await deps.findAnswer(started), signal);
    } finally {
      unfollowBatch();
      unfollowAccount();
    }
  }

  async function notRun(line: TakenLine, { outcome, run }: Start, signal: AbortSignal): Promise<Outcome> {
    if (outcome === 'superseded') return done;
    return outcome === 'late' || outcome === 'expired'
      ? late(line, line.job.earlierRuns.length < run - 1, signal)
      : finishAttempt.drop(line);
  }

  /**
   * One whose backend had time and was not done, or whose worker died, is lost; one that has spent its time waiting goes on
   * as the next request.
   */
  async function late(line: TakenLine, isLost: boolean, signal: AbortSignal): Promise<Outcome> {
    if (isLost) return finishAttempt.lose(line, deadlineExceeded(), signal);
    return finishAttempt.retry(line, retryAfterWaiting(line.job, Date.now()));
  }

  async function conclude(run: StartedLine, found: Found, signal: AbortSignal): Promise<Outcome> {
    const { job } = run;
    switch (found.outcome) {
      case 'answered':
        return end(run, answeredLine(job, found.answer.body ?? '', found.answer.usage), signal);
      case 'refused':
        return end(run, refusedLine(job, validationError([{ path: 'body', message: found.message }])), signal);
      case 'exhausted':
      case 'interrupted':
        metrics.batchLineRetries.inc({ reason: 'failed' });
        return finishAttempt.retry(run, retryAfterFailure(job, Date.now()));
      case 'late':
        return finishAttempt.postpone(withRun(run), { news: 'later', pauseMs: fullMs });
      case 'stopped':
        return stop(run, signal);
      case 'fault':
        throw found.error;
    }
  }

  async function stop(run: StartedLine, signal: AbortSignal): Promise<Outcome> {
    const reason = run.signal.reason as StopReason; // nothing else aborts this signal
    const { job, ledger } = run;
    // It is admitted again, as the next request, once its account may have it.
    if (reason === 'account suspended') return finishAttempt.retry(run, retryAfterWaiting(job, Date.now()));
    if (reason === 'deadline') return late(run, run.hadTime && ledger.attempts().length > 0, signal);
    if (reason !== 'batch cancelled' && reason !== 'batch expired') return stopped(withRun(run), reason);
    // The answer is not delivered, so only its prompt is charged; a call that had failed before has produced nothing.
    const wasCalling = ledger.attempts().at(-1)?.outcome === 'stopped';
    const error = reason === 'batch expired' ? unfinished.expired : unfinished.cancelled;
    return end(run, failedLine(job, error, wasCalling ? await promptUsage(job) : undefined), signal);
  }

  function stopped(job: BatchJob, reason: unknown): Outcome {
    // Another worker has the job, and ends the line.
    return reason === ('lock lost' satisfies StopReason) ? done : { outcome: 'requeue', job };
  }

  /** The result stands from here on, and what goes wrong in settling it is no reason to run the line again. */
  async function end(run: StartedLine, result: BatchResult, signal: AbortSignal): Promise<Outcome> {
    if (now() - run.takenAt > unchallengedMs && (await isClearedUp(run.job))) return finishAttempt.drop(run);
    const stored = await writeResult(result, signal);
    return endLine(run, stored).then(
      () => done,
      (error: unknown) => finishAttempt.postpone(withRun(run), away(error)),
    );
  }

  async function settle(line: TakenLine & { job: BatchJob }, stored: BatchResult): Promise<Outcome> {
    return finishAttempt.settle(line, stored).catch((error: unknown) => finishAttempt.postpone(line.job, away(error)));
  }

  /** A worker that was away for long may have lost the line to another, and all trace of that may be gone by now. */
  async function isClearedUp({ batch, line: number }: BatchJob): Promise<boolean> {
    const line = await store.findLine(batch, number);
    return line === undefined || (line.result === undefined && isOver(line));
  }

  /** What an earlier taking may hold, which was admitted, is given back. */
  async function endUnrun(line: TakenLine, result: BatchResult, signal: AbortSignal): Promise<Outcome> {
    await writeResult(result, signal);
    if (line.taken > 1) return finishAttempt.drop(line, 'has ended');
    deps.sendLineEvent(line.job, { news: 'ended', answered: false });
    return done;
  }
}

const awayMs = 2_000;

function away(cause: unknown) {
  return { news: 'later', pauseMs: awayMs, cause } as const;
}

/** The store or Redis is away, or says that it cannot just now. */
function isPassing(error: unknown): boolean {
  return error instanceof ReplyError || (error instanceof ApiError && error.code === 'SERVICE_UNAVAILABLE');
}

/** Every other line of a batch has ended when it is completed, so none is told of that. */
function endingOf(ending: 'completed' | 'expired' | 'cancelled'): 'expired' | 'cancelled' {
  return ending === 'expired' ? 'expired' : 'cancelled';
}

function isToRun({ number }: BatchJob, line: BatchLine): boolean {
  return isRunning(line) && line.number === number;
}

function withRun({ job, run, ledger }: StartedLine): BatchJob {
  return { ...job, earlierRuns: [...job.earlierRuns, { run, attempts: [...ledger.attempts()] }] };
}
