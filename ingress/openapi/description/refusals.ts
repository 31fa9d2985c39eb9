import { z } from 'zod';
import { type ErrorCode, errorCodes } from '../../../shared/errors.ts';

/** When each code is answered, for clients. */
export const meanings: Record<ErrorCode, string> = {
  NO_AUTH: 'No `Authorization` header was sent.',
  INVALID_KEY: 'The API key is unknown, revoked or rotated away, or a sign-in token came where a key is needed.',
  INVALID_TOKEN:
    'The bearer value is neither an API key nor a valid sign-in token, or a key came where a token is needed.',
  VALIDATION_ERROR: 'The request is malformed. The message names each field that is wrong, at most ten.',
  FORBIDDEN:
    'The account is suspended, or this is not for such a credential: a guest key, or a token without the scope.',
  NOT_FOUND: 'There is none of this name for this caller.',
  METHOD_NOT_ALLOWED: 'The path does not take this method; `Allow` has those that it takes.',
  REQUEST_TIMEOUT: 'The request did not arrive in time.',
  CONFLICT: 'It contradicts what is there already.',
  PAYLOAD_TOO_LARGE: 'The body is larger than it may be.',
  UNSUPPORTED_MEDIA_TYPE: 'The body is of another type than this route takes, of another charset, or compressed.',
  HEADERS_TOO_LARGE: 'The headers are larger than 16 KiB, or too many.',
  INTERNAL_ERROR: 'A fault of the service.',
  SERVICE_UNAVAILABLE: 'A part of the service is away or overloaded. Retry after `Retry-After`.',
  UPSTREAMS_EXHAUSTED:
    'No model server could answer: each failed, or has failed so often that it was not asked. Retry with exponential backoff and jitter.',
  UPSTREAM_INTERRUPTED: 'In a stream only: it broke off after its first token.',
  DEADLINE_EXCEEDED: 'The request was not finished before its deadline.',
  rate_limit_exceeded: 'A limit was passed; `type` says which.',
  quota_exceeded: "The month's allowance is spent. Wait for `resetDate`, have overage enabled, or top up.",
};

export const limitTypes = {
  requests_limit: 'requests per minute',
  tokens_limit: 'tokens per minute',
  daily_limit: 'requests per day, UTC',
  concurrency_limit: 'requests, or uploads, at once',
  batch_limit: 'tokens or batches that wait',
  plan_limit: 'the model is not in the plan, and waiting does not help',
  auth_failures: 'unknown API keys from one network within a minute',
  guest_calls: 'calls from one network within a minute',
  guest_mints: 'new devices within an hour, from one network or in all',
} as const;

export type LimitType = keyof typeof limitTypes;

const message = z.string().meta({ description: 'For people; it may change.' });
const limitNames = Object.keys(limitTypes) as [LimitType, ...LimitType[]]; // the keys of a literal table are its types

/** What a body has beside the two fields of every flat one. */
const extraFields: Partial<Record<ErrorCode, Record<string, z.ZodType>>> = {
  UPSTREAMS_EXHAUSTED: {
    tier: z.string().meta({ description: "The model's tier." }),
    attempted: z.array(z.string()).meta({
      description:
        'The model servers that were asked, in order; all of them where none was, because they keep failing.',
    }),
  },
};

/** What is in `error` of a nested one, beside `code`, `message` and `param`. */
const nestedFields: Partial<Record<ErrorCode, Record<string, z.ZodType>>> = {
  rate_limit_exceeded: {
    type: z.enum(limitNames),
    retry_after_ms: z.int().nonnegative().meta({
      description:
        'Milliseconds until the same request passes; 0 where waiting does not help. For `concurrency_limit` (1000) and `batch_limit` (60000) nobody knows: they say when to ask again.',
    }),
    docs: z.string().meta({ description: 'Where this error is explained.' }),
  },
  quota_exceeded: {
    type: z.literal('quota_limit'),
    resetDate: z.iso.date().meta({ description: 'The first day of the next month, UTC.' }),
    topupUrl: z.string(),
    overageEnabled: z.boolean(),
  },
};

/** The codes that a whole answer can have. */
const bodyCodes = (Object.keys(errorCodes) as ErrorCode[]) // the keys of the table are the codes
  .filter((code) => code !== 'UPSTREAM_INTERRUPTED');

/** The body of each code, by its code. */
export const refusalSchemas: Record<string, z.ZodType> = Object.fromEntries(
  bodyCodes.map((code) => [code, bodyOf(code)]),
);

function bodyOf(code: ErrorCode): z.ZodType {
  const description = meanings[code];
  if (errorCodes[code].shape === 'flat') {
    return z.strictObject({ error: message, code: z.literal(code), ...extraFields[code] }).meta({ description });
  }
  const error = z.strictObject({ code: z.literal(code), message, param: z.null(), ...nestedFields[code] });
  return z.strictObject({ error }).meta({ description });
}
