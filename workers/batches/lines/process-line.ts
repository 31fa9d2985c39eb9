import { setTimeout as sleep } from 'node:timers/promises';
import { ReplyError } from 'ioredis';
import type { Counter } from 'prom-client';
import type { BatchResult } from '../../../shared/batches/batch.ts';
import { isRunning } from '../../../shared/batches/batch-states.ts';
import { ApiError, toApiError } from '../../../shared/errors.ts';
import type { SuspensionWatch } from '../../../shared/limits/watch-suspensions.ts';
import { type AnswerBudget, batchHolder, type HeldAnswer } from '../../../shared/process/answer-budget.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { BatchStore } from '../../../shared/store/records/batch-store.ts';
import type { BatchLine } from '../../../shared/store/records/line-records.ts';
import type { Tracing } from '../../../shared/tracing/span.ts';
import { createWatchdog } from '../../backend-client/exchange.ts';
import type { FindAnswer } from '../../failover/find-answer.ts';
import {
  type CallingRun,
  createRunLedger,
  type JobOutcome,
  type ProcessJob,
  type StopReason,
} from '../../failover/run.ts';
import { traceRun } from '../../failover/trace-run.ts';
import type { LinePace, LineTurn } from '../../queue/line-pace.ts';
import type { Start, StartRun } from '../../requests/start-run.ts';
import type { AdmitLine, AdmittedLine } from './admit-line.ts';
import { type BatchJob, batchJobSchema } from './batch-job.ts';
import { createConcludeLine, handBack, type StartedLine } from './conclude-line.ts';
import type { EndLine } from './end-line.ts';
import { type FinishLineAttempt, type TakenLine, unavailable } from './finish-line-attempt.ts';
import type { SendLineEvent } from './line-events.ts';
import { failedLine, noRoomLeft } from './line-results.ts';
import type { ResultRoom } from './result-room.ts';
import type { BatchWatch } from './watch-batches.ts';
import type { WriteResult } from './write-results.ts';

/** `takenAt` is when this worker took the job, by `now`. */
type ReservedJob = Pick<CallingRun, 'reservation'> & { job: BatchJob; taken: number; takenAt: number };
/** A job that is admitted and may call backends. */
type AdmittedRun = ReservedJob & {
  turn: LineTurn;
  start: Extract<Start, { outcome: 'run' }>;
  admitted: Extract<AdmittedLine, { outcome: 'admitted' }>;
};

const done: JobOutcome = { outcome: 'done' };
/** A line that failed at one backend waits this long for another one. Then it makes room for a line of another model. */
const waitForBackendMs = 1_000;
/** Until a line of the same account that runs now may have ended. */
const waitForRoomMs = 1_000;
const lane = 'batch';

const neverStreamed: CallingRun['reply'] = {
  chunk: () => Promise.reject(new Error('a line of a batch is not streamed')),
};

type Deps = {
  store: Pick<BatchStore, 'findLine'>;
  /** The time that a request has from its admission, in milliseconds. */
  requestMs: () => number;
  room: Pick<ResultRoom, 'hold'>;
  admitLine: AdmitLine;
  startRun: StartRun;
  finishAttempt: FinishLineAttempt;
  findAnswer: FindAnswer;
  answers: Pick<AnswerBudget, 'hold'>;
  linePace: Pick<LinePace, 'begin'>;
  writeResult: WriteResult;
  endLine: EndLine;
  followBatch: BatchWatch['follow'];
  followAccount: SuspensionWatch['follow'];
  sendLineEvent: SendLineEvent;
  metrics: { batchLineRetries: Counter<'endpoint' | 'reason'>; batchLinePauses: Counter<'reason'> };
  /** Undefined if requests are not traced. */
  tracing?: Tracing | undefined;
  log: Log;
  now?: () => number;
};

/**
 * Processes one line of a batch from its admission to its result. A line runs while its batch does and while it has no result. The result
 * is stored first, and the charge follows from what is stored (contract.md#u3-result-first, decisions.md#results-before-charges). So if the
 * process dies in between, the next attempt completes it.
 */
export function createProcessLine(deps: Deps): ProcessJob {
  const { store, finishAttempt, log, now = () => performance.now() } = deps;
  const runLine = createRunLine({ ...deps, now });

  return async function processLine({ data, taken, signal, reservation }) {
    const takenAt = now();
    const job = batchJobSchema.parse(data);
    try {
      const line = await store.findLine(job.batch, job.line);
      if (line?.result !== undefined) return await settle({ job, taken }, line.result);
      if (line === undefined || !isToRun(job, line)) return await finishAttempt.drop({ job, taken });
      return await admitAndRun({ job, taken, takenAt, reservation }, signal);
    } catch (error) {
      if (signal.aborted) return handBack(job, signal.reason);
      // The service will be available again, and the line has lost nothing.
      if (isPassing(error)) return finishAttempt.postpone(job, unavailable(error));
      log.error({ err: error, requestId: job.requestId }, 'a line of a batch failed because of an internal error');
      const losing = finishAttempt.lose({ job, taken }, toApiError(error), signal);
      return await losing.catch((cause: unknown) => finishAttempt.postpone(job, unavailable(cause)));
    }
  };

  async function settle(line: TakenLine & { job: BatchJob }, stored: BatchResult): Promise<JobOutcome> {
    return finishAttempt
      .settle(line, stored)
      .catch((error: unknown) => finishAttempt.postpone(line.job, unavailable(error)));
  }

  async function admitAndRun(taking: ReservedJob, signal: AbortSignal): Promise<JobOutcome> {
    const { job, taken } = taking;
    using turn = deps.linePace.begin(job.account);
    if (turn.pauseMs > 0) return finishAttempt.postpone(job, { pauseMs: turn.pauseMs, reason: 'clients' });
    deps.sendLineEvent(job, { type: 'started' });
    const held = await deps.room.hold(job);
    if (held === 'full') return endUnrun(taking, failedLine(job, noRoomLeft), signal);
    if (held === 'later') return finishAttempt.postpone(job, { pauseMs: waitForRoomMs, reason: 'room' });
    using _held = held;
    const admitted = await deps.admitLine(job);
    if (admitted.outcome === 'refused') return endUnrun(taking, failedLine(job, admitted.error), signal);
    if (admitted.outcome === 'ended') return finishAttempt.drop(taking);
    if (admitted.outcome === 'later')
      return finishAttempt.postpone(job, { pauseMs: admitted.pauseMs, reason: 'limits' });
    const start = await deps.startRun({ ...job, taken, lane });
    if (start.outcome === 'run') return await runLine({ ...taking, turn, start, admitted }, signal);
    if (start.outcome === 'superseded') return done;
    if (start.outcome !== 'late' && start.outcome !== 'expired') return finishAttempt.drop(taking);
    // If an earlier run left no trace in the job, its worker died.
    return finishAttempt.expire(taking, job.earlierRuns.length < start.run - 1, signal);
  }

  /** An earlier attempt may hold a lease, because it was admitted. That is released. */
  async function endUnrun(line: TakenLine, result: BatchResult, signal: AbortSignal): Promise<JobOutcome> {
    await deps.writeResult(result, line.job, signal);
    if (line.taken > 1) return finishAttempt.drop(line, 'has ended');
    deps.sendLineEvent(line.job, { type: 'ended', answered: false });
    return done;
  }
}

function createRunLine(deps: Deps & { now: () => number }) {
  const { findAnswer, requestMs, now } = deps;
  const concludeLine = createConcludeLine(deps);

  return async function runLine(
    { job, taken, takenAt, reservation, turn, start, admitted: { admission, plan } }: AdmittedRun,
    signal: AbortSignal,
  ): Promise<JobOutcome> {
    const { run, remainingMs } = start;
    using watch = watchRun(deps, { job, remainingMs, signal });
    const startedAt = now();
    const queueWaitMs = Math.max(0, start.now - admission.admittedAt);
    using span = traceRun(deps.tracing, { job, run, lane, queueWaitMs });
    using holding = deps.answers.hold(batchHolder);
    const held = counted(holding, turn);
    const started: StartedLine = {
      job: { ...job, plan },
      run,
      taken,
      admission,
      lane,
      held,
      reply: neverStreamed,
      reservation,
      takenAt,
      ledger: createRunLedger({ run, queueWaitMs }),
      span,
      signal: watch.signal,
      leftMs: () => startedAt + remainingMs - now(),
      mayWaitMs: () => startedAt + waitForBackendMs - now(),
      hadTime: remainingMs >= requestMs() / 2,
    };
    return await concludeLine(started, await findAnswer(started), signal);
  };
}

/** What a line holds of its answer, which counts as received. */
function counted(held: HeldAnswer, turn: LineTurn): HeldAnswer {
  return {
    ...held,
    add(bytes) {
      if (bytes > 0) turn.received(bytes);
      held.add(bytes);
    },
  };
}

/** Its signal is aborted when the batch ends, the account is suspended, the request's time is over, or `signal` is aborted. */
function watchRun(
  { followBatch, followAccount }: Pick<Deps, 'followBatch' | 'followAccount'>,
  { job, remainingMs, signal }: { job: BatchJob; remainingMs: number; signal: AbortSignal },
): Disposable & { signal: AbortSignal } {
  const over = new AbortController();
  const unfollowBatch = followBatch(job.batch, (ending) =>
    over.abort(`batch ${endingOf(ending)}` satisfies StopReason),
  );
  const unfollowAccount = followAccount(job, () => over.abort('account suspended' satisfies StopReason));
  const deadline = createWatchdog([signal, over.signal]);
  deadline.expectWithin(remainingMs, () => 'deadline' satisfies StopReason);
  return {
    signal: deadline.signal,
    [Symbol.dispose]() {
      unfollowBatch();
      unfollowAccount();
      deadline[Symbol.dispose]();
    },
  };
}

/** Whether the store or Redis is unavailable, or refuses only for now. */
function isPassing(error: unknown): boolean {
  return error instanceof ReplyError || (error instanceof ApiError && error.code === 'SERVICE_UNAVAILABLE');
}

/** If a batch is completed, its other lines have ended, so no line runs that this could stop. */
function endingOf(ending: 'completed' | 'expired' | 'cancelled'): 'expired' | 'cancelled' {
  return ending === 'expired' ? 'expired' : 'cancelled';
}

function isToRun({ number }: BatchJob, line: BatchLine): boolean {
  return isRunning(line) && line.number === number;
}

type LostJob = { data: unknown; taken: number; isStalled: boolean };

/**
 * Ends a line whose workers kept dying: with an error, unless one of them stored its answer. Counts as one more attempt at the job, which
 * finds that result and settles it.
 */
export function createFailLostLine({
  writeResult,
  processLine,
  finishAttempt,
  shutdown,
  pauseMs = 1_000,
}: {
  writeResult: WriteResult;
  processLine: ProcessJob;
  finishAttempt: Pick<FinishLineAttempt, 'lose'>;
  shutdown: AbortSignal;
  pauseMs?: number;
}) {
  return async function failLostLine({ data, taken, isStalled }: LostJob): Promise<void> {
    const job = batchJobSchema.parse(data);
    const error = new ApiError('INTERNAL_ERROR', 'The line could not be run.');
    // If the job ended for another reason, for example because Redis refused to postpone it, the line itself is not at fault.
    if (!isStalled) return void (await finishAttempt.lose({ job, taken }, error, shutdown));
    await writeResult(failedLine(job, error), job, shutdown);
    // No job is left that could run later.
    while ((await processLine({ data, taken, signal: shutdown })).outcome === 'later') {
      await sleep(pauseMs, undefined, { signal: shutdown });
    }
  };
}
