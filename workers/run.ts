import type { InferenceJob } from '../shared/inference-job.ts';
import type { Usage } from '../shared/replies.ts';
import type { ReplySender } from './replies/send-reply.ts';
import type { RunLedger } from './run-ledger.ts';

/** One taking of a job, and what it has to end it by. `taken` is how often the job was taken, this time included. */
export type Run = {
  job: InferenceJob;
  run: number;
  taken: number;
  /** When this worker had the job, by `performance.now()`. */
  takenAt: number;
  reply: ReplySender;
  ledger: RunLedger;
};

/** Why a run ends before its answer: the reason that its signal is aborted with. */
export type StopReason = 'cancelled' | 'ingress gone' | 'lock lost' | 'shutdown' | 'deadline';

/** A run that may call backends. */
export type StartedRun = Run & {
  signal: AbortSignal;
  /** What was used up to the time of asking, once text for the client has come. */
  received?: (() => Promise<Usage>) | undefined;
  /** Milliseconds until the request's deadline. */
  leftMs: () => number;
  /** For so many milliseconds from now it may wait for a backend that is full. */
  mayWaitMs: () => number;
};
