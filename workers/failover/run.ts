import type { InferenceJob, QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { RunProgress } from '../../shared/jobs/replies.ts';
import type { HeldAnswer } from '../../shared/process/answer-budget.ts';
import type { Lane } from '../../shared/redis/keys.ts';
import type { UsageAttempt } from '../../shared/store/usage/usage-record.ts';
import type { Span } from '../../shared/tracing/span.ts';
import type { Reservation } from '../backends/reservation.ts';
import type { ReplySender } from '../replies/send-reply.ts';
import type { AttemptOutcome } from './outcome.ts';

/**
 * One taking of a job. `taken`: how often the job was taken from its queue, including this time. `signal`: aborted with a `StopReason`.
 * `reservation`: the slot that is reserved for it.
 */
export type TakenJob = {
  data: unknown;
  taken: number;
  signal: AbortSignal;
  reservation?: Reservation | undefined;
};

/**
 * The result of a taking. `requeue`: nothing was sent yet, and this job goes back to its queue, to run at once on another worker
 * (contract.md#o12-requeueing). `later`: this job runs again after about `pauseMs`.
 */
export type JobOutcome = { outcome: 'done' } | ReturnedJob;

type ReturnedJob = { outcome: 'requeue'; job: QueuedCall } | { outcome: 'later'; job: QueuedCall; pauseMs: number };

export type ProcessJob = (taking: TakenJob) => Promise<JobOutcome>;

/** One run of a request's job, with what is needed to end it. */
export type Run = {
  job: InferenceJob;
  run: number;
  taken: number;
  /** When this worker took the job, by `performance.now()`. */
  takenAt: number;
  reply: ReplySender;
  ledger: RunLedger;
  /** Set if the run is traced. */
  span?: Span | undefined;
};

/** Why a run ends before its answer: the abort reason of its signal. */
export type StopReason =
  | 'cancelled'
  | 'ingress gone'
  | 'lock lost'
  | 'shutdown'
  | 'deadline'
  | 'account suspended'
  | 'batch cancelled'
  | 'batch expired';

/** A run that may call backends. */
export type CallingRun = {
  job: QueuedCall & Pick<InferenceJob, 'plan'>;
  lane: Lane;
  ledger: RunLedger;
  /** Set if the run is traced. */
  span?: Span | undefined;
  reply: Pick<ReplySender, 'chunk'>;
  /** What this process holds of its answer. */
  held: HeldAnswer;
  signal: AbortSignal;
  /** For its first call. */
  reservation: Reservation | undefined;
  /** Milliseconds until the request's deadline. */
  leftMs: () => number;
  /** How many milliseconds from now it may wait for a full backend. */
  mayWaitMs: () => number;
};

export type StartedRun = Run & CallingRun;

const waits: ReadonlySet<AttemptOutcome> = new Set(['busy', 'loading']);

export type AttemptEnd = Pick<UsageAttempt, 'cause' | 'address' | 'rule' | 'status' | 'isLoss'> & {
  outcome: AttemptOutcome;
};

/** Records what one run of a job does, for its usage record. Times are milliseconds since the request was admitted. */
export function createRunLedger({
  run,
  queueWaitMs,
  now = () => performance.now(),
}: {
  run: number;
  queueWaitMs: number;
  now?: () => number;
}) {
  const startedAt = now();
  const attempts: UsageAttempt[] = [];
  let firstTokenMs: number | null = null;
  let hasSentText = false;
  let answerId: string | undefined;
  let latestBackend: string | undefined;
  const sinceAdmission = () => queueWaitMs + Math.round(now() - startedAt);

  return {
    /**
     * A call of a backend begins, with its own name of the model if it has one. Call the returned function at its end. Calls that find a
     * backend busy for the same reason are one attempt.
     */
    beginAttempt(backend: string, model?: string): (end: AttemptEnd) => void {
      const begunAt = now();
      latestBackend = backend;
      return (end) => {
        const durationMs = Math.round(now() - begunAt);
        // A request that waits for a busy backend asks it again and again.
        const known = attempts.find(
          (each) => waits.has(end.outcome) && each.backend === backend && each.rule === end.rule,
        );
        if (known !== undefined) known.durationMs = (known.durationMs ?? 0) + durationMs;
        else attempts.push({ run, backend, ...(model !== undefined && { model }), ...end, durationMs });
      };
    },
    /** The first token of the backend that answers. The last call counts. */
    firstToken(): void {
      firstTokenMs = sinceAdmission();
    },
    /** The first text for the client is about to be sent. */
    sendText(): void {
      hasSentText = true;
    },
    hasSentText: (): boolean => hasSentText,
    /** The backend's id of the answer. The last call counts. */
    answeredAs(id: string | undefined): void {
      answerId = id;
    },
    answerId: (): string | undefined => answerId,
    attempts: (): readonly UsageAttempt[] => attempts,
    /** Undefined before the first call of a backend. */
    served: (): RunProgress | undefined =>
      latestBackend === undefined ? undefined : { backend: latestBackend, queueWaitMs, firstTokenMs },
    timing: (): { queueWaitMs: number; firstTokenMs: number | null; durationMs: number } => ({
      queueWaitMs,
      firstTokenMs,
      durationMs: sinceAdmission(),
    }),
  };
}

export type RunLedger = ReturnType<typeof createRunLedger>;
