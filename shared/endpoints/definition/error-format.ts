import type { ApiError } from '../../errors.ts';

export type ErrorContext = { requestId: string; docsUrl: string };

/** The form of an endpoint's errors. */
export interface ErrorFormat {
  /** The JSON body of an HTTP response. */
  body(error: ApiError, context: ErrorContext): object;
}

/** How a stream of an endpoint ends for its client: the text after its last event. */
export interface StreamEnding {
  /** Called with all text that is sent. */
  follow?(text: string): void;
  complete(): string;
  /** The stream broke off. Without it, a client would take the answer for complete (contract.md#d4-broken-streams). */
  broken(error: ApiError, requestId: string): string;
}
