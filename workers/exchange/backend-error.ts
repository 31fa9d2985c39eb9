/**
 * How a call to a backend went, as metrics and usage records say it; `over_limit`: it answered, and would have gone on past the most
 * that it was asked for; `fault`: by a fault of ours.
 */
export type AttemptOutcome =
  | 'completed'
  | 'over_limit'
  | 'stopped'
  | 'fault'
  | 'refused_request'
  | 'status'
  | 'connection'
  | 'connect_timeout'
  | 'first_token_timeout'
  | 'idle_timeout'
  | 'unreadable'
  | 'interrupted';

type Options = { cause?: unknown; retryAfterMs?: number | undefined };

/** A call to a backend that gave no answer. `message` is for the log; what a client may see of it is decided elsewhere. */
export class BackendError extends Error {
  override readonly name = 'BackendError';
  readonly outcome: AttemptOutcome;
  /** How long the backend wants to be left alone, in milliseconds, where it said so. */
  readonly retryAfterMs: number | undefined;

  constructor(outcome: AttemptOutcome, message: string, { cause, retryAfterMs }: Options = {}) {
    super(message, { cause });
    this.outcome = outcome;
    this.retryAfterMs = retryAfterMs;
  }
}
