import type { AnswerFormat } from './answer-format.ts';
import type { ErrorFormat } from './error-format.ts';
import type { RequestFormat } from './request-format.ts';

/**
 * An endpoint for inference: all that differs from one endpoint to the next (contract.md#g1-endpoints). Routes, admission, queue, dispatch
 * and settlement are the same for all, and know no endpoint by name.
 */
export interface Endpoint {
  /** The name in `endpoints` of a model in the plan file. Endpoints that are offered together have the same. */
  readonly name: string;
  /** The route. Usage records and metrics name the endpoint by it, and backends serve the same path, without `/v1`. */
  readonly path: `/v1/${string}`;
  /** Other paths at which clients call it. */
  readonly otherPaths?: readonly string[];
  readonly request: RequestFormat;
  readonly answer: AnswerFormat;
  /** Undefined for the errors that all other routes have. */
  readonly errors?: ErrorFormat;
  readonly headers: EndpointHeaders;
  /** Whether lines of batches may use it. */
  readonly inBatches: boolean;
}

/** Headers by their names in lower case. */
export type EndpointHeaders = {
  /** Another header of the response that names the request. */
  readonly requestId?: string;
  /** Headers of the client that backends get, unchanged unless there is a function here that reads them. */
  readonly passedOn: readonly string[];
  readonly read?: Readonly<Record<string, ReadHeader>>;
};

/**
 * Returns what backends get of a header's value, empty if nothing, and what they do not get, by names for the client. Fails with
 * `VALIDATION_ERROR`. `isListed` says what the model's `extra_fields` allows.
 */
export type ReadHeader = (
  value: string,
  isListed: (name: string) => boolean,
) => { kept: string; dropped: readonly string[] };

export const noHeaders: EndpointHeaders = { passedOn: [] };
