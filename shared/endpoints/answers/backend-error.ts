/**
 * How a call ended that has no answer, as it was seen here. `status`: an HTTP status other than 2xx. `said`: an error of the backend in a
 * 200, as an event or as the whole body. `connection`: it failed or broke. `interrupted`: the answer ended before it was complete.
 * `unreadable`: it is not what it should be. `too_large`: it exceeds the limit of one answer.
 */
export type BackendFault =
  | 'status'
  | 'said'
  | 'connection'
  | 'connect_timeout'
  | 'first_token_timeout'
  | 'idle_timeout'
  | 'unreadable'
  | 'interrupted'
  | 'too_large';

/**
 * A backend's own error, in one of the shapes that model servers and proxies use (contract.md#ms13-words-of-refusals). `words` are for the
 * client whose request it was, and for no log or record. `kinds`: its codes and types, in lower case. `param`: the field that it names.
 * `status`: an HTTP status in it.
 */
export type ErrorContent = {
  words: string;
  kinds: readonly string[];
  param?: string;
  status?: number;
  promptTokens?: number;
  contextTokens?: number;
};

/**
 * What is known of the call. `retryAfterMs`: how long the backend asked not to be called. `wasSent`: the complete request was sent, so the
 * request itself may be the cause.
 */
type Details = {
  cause?: unknown;
  status?: number;
  said?: ErrorContent;
  retryAfterMs?: number | undefined;
  wasSent?: boolean;
};

/**
 * A call of a backend without an answer. `message` is for the log and has no words of the backend. What the fault means is decided in one
 * place (`workers/failover/decide-outcome.ts`).
 */
export class BackendError extends Error {
  override readonly name = 'BackendError';
  readonly fault: BackendFault;
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly wasSent: boolean;
  /** No property of its own: a log has all of these, and must not have the words. */
  readonly #said: ErrorContent | undefined;

  constructor(fault: BackendFault, message: string, details: Details = {}) {
    super(message, { cause: details.cause });
    this.fault = fault;
    this.status = details.status;
    this.#said = details.said;
    this.retryAfterMs = details.retryAfterMs;
    this.wasSent = details.wasSent ?? true;
  }

  get said(): ErrorContent | undefined {
    return this.#said;
  }
}
