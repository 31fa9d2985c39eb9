/**
 * The outcome of a call to a backend, for metrics and usage records. `over_limit`: it answered, and exceeded the output limit. `not_offered`: it
 * does not have the route, which not every server has. `too_large`: its answer exceeds the limit of one answer. `fault`: an internal error.
 */
export type AttemptOutcome =
  | 'completed'
  | 'over_limit'
  | 'too_large'
  | 'stopped'
  | 'fault'
  | 'refused_request'
  | 'not_offered'
  | 'status'
  | 'connection'
  | 'connect_timeout'
  | 'first_token_timeout'
  | 'idle_timeout'
  | 'unreadable'
  | 'interrupted';

type Options = { cause?: unknown; retryAfterMs?: number | undefined };

/** A call to a backend without an answer. `message` is for the log. What a client may see of it is decided elsewhere. */
export class BackendError extends Error {
  override readonly name = 'BackendError';
  readonly outcome: AttemptOutcome;
  /** How long the backend asked not to be called, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(outcome: AttemptOutcome, message: string, { cause, retryAfterMs }: Options = {}) {
    super(message, { cause });
    this.outcome = outcome;
    this.retryAfterMs = retryAfterMs;
  }
}
