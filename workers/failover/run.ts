import type { HeldAnswer } from '../../shared/bytes/answer-budget.ts';
import type { InferenceJob, QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { Lane } from '../../shared/lane.ts';
import type { Span } from '../../shared/tracing/span.ts';
import type { Reservation } from '../backends/reservation.ts';
import type { ReplySender } from '../replies/send-reply.ts';
import type { RunLedger } from './run-ledger.ts';

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
export type Outcome = { outcome: 'done' } | ReturnedJob;

type ReturnedJob = { outcome: 'requeue'; job: QueuedCall } | { outcome: 'later'; job: QueuedCall; pauseMs: number };

export type ProcessJob = (taking: TakenJob) => Promise<Outcome>;

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
