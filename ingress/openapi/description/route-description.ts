import type { z } from 'zod';
import type { ErrorCode } from '../../../shared/errors.ts';
import type { LimitType } from './refusals.ts';
import type { AnswerName, RequestName } from './schemas.ts';

/** `either` is an API key or a sign-in token, `account` the same without guest keys, `operator` a token of an operator. */
export type Credential = 'none' | 'key' | 'signIn' | 'either' | 'account' | 'operator';

export type Tag =
  | 'Inference'
  | 'Requests'
  | 'Keys'
  | 'Files'
  | 'Batches'
  | 'Webhooks'
  | 'Billing'
  | 'Operators'
  | 'Documentation';

/** `form` for `multipart/form-data`, else JSON. */
type Body<Schema> = { schema: Schema; form?: true; example?: unknown };

/** Server-sent events: the schemas of their data, and an example of a whole stream. */
export type StreamDescription = { events: readonly string[]; description: string; example: string };

/** `schema`: JSON of this schema, the bytes of a file, or JSON that the document does not describe further. */
type Answer<Schema> = {
  description: string;
  schema: Schema | 'bytes' | 'object';
  /** Events on request. */
  stream?: StreamDescription;
  /** The same as a file of CSV on request, with an example of it. */
  csv?: string;
  /** Names of further headers. */
  headers?: readonly string[];
  /** 304 for a client that has it already. */
  cached?: true;
  /** 302 with the same body: for which clients, and the target. */
  redirect?: string;
  example?: unknown;
};

/**
 * The documentation of one route. `id` never changes: generated clients name their methods after it. `refusals` are the errors of this
 * route; the common ones are added. `limits` are the types of its own 429.
 */
export type RouteDescription<Request = string, Answered = string> = {
  id: string;
  tag: Tag;
  summary: string;
  description?: string;
  credential: Credential;
  query?: z.ZodObject;
  body?: Body<Request>;
  answer: Answer<Answered>;
  refusals: readonly ErrorCode[];
  limits?: readonly LimitType[];
  /** Whether requests wait in a queue. */
  queued?: boolean;
  /** It accepts an idempotency key. */
  repeatable?: boolean;
  /** Headers of the client that model servers get unchanged. */
  passedOn?: readonly string[];
  /** Further headers of every response. */
  headers?: readonly string[];
  /** The schema of all errors, if they have a shape of their own. */
  errorSchema?: string | undefined;
};

/** By method and path in the syntax of the router: `GET /v1/files/:file`. */
export type RouteDescriptions = Readonly<Record<string, RouteDescription<RequestName, AnswerName>>>;

const keyRefusals = ['NO_AUTH', 'INVALID_KEY', 'KEY_EXPIRED', 'INVALID_TOKEN', 'FORBIDDEN'] as const;

/** Errors of the request head: a missing or wrong credential, or a suspended account. */
export const refusedHead = {
  none: ['VALIDATION_ERROR'],
  signIn: ['VALIDATION_ERROR', 'NO_AUTH', 'INVALID_TOKEN', 'FORBIDDEN'],
  key: ['VALIDATION_ERROR', ...keyRefusals],
} as const;

/** Errors of the request body. */
export const refusedBody = ['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'] as const;
