import type { z } from 'zod';
import type { ErrorCode } from '../../../shared/errors.ts';
import type { LimitType } from './refusals.ts';
import type { answerSchemas, requestSchemas } from './schemas.ts';

/** `either` is an API key or a sign-in token, `account` the same without guest keys, `operator` a token with `svc:admin`. */
export type Credential = 'none' | 'key' | 'signIn' | 'either' | 'account' | 'operator';

export type Tag = 'Inference' | 'Keys' | 'Files' | 'Batches' | 'Billing' | 'Operators' | 'Documentation';

/** `form` for `multipart/form-data`, else JSON. */
type Body = { schema: keyof typeof requestSchemas; form?: true; example?: unknown };

/** JSON of this schema, a file's bytes, or JSON of which the document says no more than that. `stream`: or events, if asked for. */
type Answer = {
  description: string;
  schema: keyof typeof answerSchemas | 'bytes' | 'object';
  stream?: true;
  /** 304 to whoever has it already. */
  cached?: true;
  /** 302 with the same body: to whom, and where to. */
  redirect?: string;
  example?: unknown;
};

/**
 * One route as it is documented. `id` never changes: clients that are generated call their methods by it. `refusals` are its
 * own; those that every route has alike are added. `limits` are the types of its own 429.
 */
export type RouteDescription = {
  id: string;
  tag: Tag;
  summary: string;
  description?: string;
  credential: Credential;
  query?: z.ZodObject;
  body?: Body;
  answer: Answer;
  refusals: readonly ErrorCode[];
  limits?: readonly LimitType[];
};

/** By method and path as the router has it: `GET /v1/files/:file`. */
export type RouteDescriptions = Readonly<Record<string, RouteDescription>>;

const keyRefusals = ['NO_AUTH', 'INVALID_KEY', 'INVALID_TOKEN', 'FORBIDDEN'] as const;

/** What a request is refused with for its head: a credential that is missing or wrong, or of an account that is suspended. */
export const refusedHead = {
  none: ['VALIDATION_ERROR'],
  signIn: ['VALIDATION_ERROR', 'NO_AUTH', 'INVALID_TOKEN', 'FORBIDDEN'],
  key: ['VALIDATION_ERROR', ...keyRefusals],
} as const;

/** What a request is refused with for its body. */
export const refusedBody = ['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'] as const;
