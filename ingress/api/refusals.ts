import { z } from 'zod';
import { type ErrorCode, errorCodes } from '../../shared/errors.ts';

/** The meaning of each error code, for clients. */
export const meanings: Record<ErrorCode, string> = {
  NO_AUTH: 'No credential was sent.',
  INVALID_KEY: 'The API key is unknown, revoked or rotated, or a sign-in token was sent where a key is required.',
  KEY_EXPIRED: 'The API key has expired.',
  INVALID_TOKEN:
    'The bearer value is neither an API key nor a valid sign-in token, or a key was sent where a token is required.',
  VALIDATION_ERROR: 'The request is malformed. The message names each invalid field, at most ten.',
  FORBIDDEN:
    'The account is suspended, an operator or a revocation of its key has ended the request, or the credential is not allowed here: a guest key, a key that is limited, or a token without the scope.',
  NOT_FOUND: 'The resource does not exist for this caller.',
  METHOD_NOT_ALLOWED: 'The path does not support this method; `Allow` lists the supported ones.',
  REQUEST_TIMEOUT: 'The request did not arrive in time.',
  CONFLICT: 'The request conflicts with the current state.',
  IDEMPOTENCY_RESULT_LOST:
    'The first request with this idempotency key was charged, and its answer is not kept. Another attempt needs a new key.',
  PAYLOAD_TOO_LARGE: 'The body exceeds the size limit.',
  UNSUPPORTED_MEDIA_TYPE: 'The route does not accept the media type or charset of the body, or the body is compressed.',
  IDEMPOTENCY_MISMATCH: 'This idempotency key was used for a request with another body, or on another route.',
  UPGRADE_REQUIRED: 'The path has no WebSocket. Send the request over HTTP.',
  HEADERS_TOO_LARGE: 'The headers are larger than 16 KiB, or too many.',
  INTERNAL_ERROR: 'An internal error of the service.',
  SERVICE_UNAVAILABLE: 'A part of the service is unavailable or overloaded. Retry after `Retry-After`.',
  UPSTREAMS_EXHAUSTED:
    'No model server could answer: each failed, or was skipped because it keeps failing. Retry with exponential backoff and jitter.',
  UPSTREAM_INTERRUPTED: 'Only in a stream: it was interrupted after its first token.',
  DEADLINE_EXCEEDED: 'The request did not finish before its deadline.',
  rate_limit_exceeded: 'A limit was exceeded; `type` says which.',
  quota_exceeded: 'The allowance of this month is used up. Wait for `resetDate`, turn overage on, or top up.',
};

export const limitTypes = {
  requests_limit: 'requests per minute',
  tokens_limit: 'tokens per minute',
  daily_limit: 'requests per day, UTC',
  concurrency_limit: 'concurrent requests or uploads',
  key_requests_limit: 'requests per minute of this API key',
  key_tokens_limit: 'tokens per minute of this API key',
  batch_limit: 'waiting tokens or batches',
  plan_limit: 'the model is not in the plan; waiting does not help',
  auth_failures: 'unknown API keys from one network within a minute',
  code_failures: 'unknown top-up codes of one account within a minute',
  guest_calls: 'calls from one network within a minute',
  guest_mints: 'new devices within an hour, from one network or in total',
  idempotency_limit: 'bytes of answers that are kept for repeats',
  settings_limit: 'changes of keys and settings within a minute, or new keys within a day, UTC',
} as const;

export type LimitType = keyof typeof limitTypes;

const message = z.string().meta({ description: 'For humans; may change.' });
const quotaTypes = ['quota_limit', 'key_quota_limit'] as const;
const limitNames = Object.keys(limitTypes) as [LimitType, ...LimitType[]]; // the type of its keys

/** Additional fields of flat bodies, beside the two common ones. */
const extraFields: Partial<Record<ErrorCode, Record<string, z.ZodType>>> = {
  UPSTREAMS_EXHAUSTED: {
    tier: z.string().meta({ description: "The model's tier." }),
    attempted: z.array(z.string()).meta({
      description:
        'The model servers that were called, in order; all of them if none was called because they keep failing.',
    }),
  },
};

/** Fields in `error` of nested bodies, beside `code`, `message` and `param`. */
const nestedFields: Partial<Record<ErrorCode, Record<string, z.ZodType>>> = {
  rate_limit_exceeded: {
    type: z.enum(limitNames),
    retry_after_ms: z.int().nonnegative().meta({
      description:
        'Milliseconds until the same request is admitted; 0 if waiting does not help. For `concurrency_limit` (1000) and `batch_limit` (60000) that time is unknown, and so it is for `idempotency_limit` (1000) while requests run: retry after this time.',
    }),
    docs: z.string().meta({ description: 'Address of the explanation of this error.' }),
  },
  quota_exceeded: {
    type: z.enum(quotaTypes).meta({ description: '`key_quota_limit`: the month of this API key, not of its account.' }),
    resetDate: z.iso.date().meta({ description: 'The first day of the next month, UTC.' }),
    topupUrl: z.string(),
    overageEnabled: z.boolean(),
  },
};

/** The codes that a response body can have. */
const bodyCodes = (Object.keys(errorCodes) as ErrorCode[]) // its keys are the codes
  .filter((code) => code !== 'UPSTREAM_INTERRUPTED');

/** The body of each error, by code. */
export const refusalSchemas: Record<string, z.ZodType> = Object.fromEntries(
  bodyCodes.map((code) => [code, bodyOf(code)]),
);

const allCodes = Object.keys(errorCodes) as [ErrorCode, ...ErrorCode[]]; // its keys are the codes

/** What errors of all codes have in shapes that do not depend on the code. `details` are the additional fields, except `type`. */
export const errorParts = {
  message,
  code: z.enum(allCodes).meta({ description: 'The stable code.' }),
  limit: z.enum([...limitNames, ...quotaTypes]),
  details: optionalFields([...Object.values(extraFields), ...Object.values(nestedFields)]),
};

function optionalFields(tables: readonly Record<string, z.ZodType>[]): Record<string, z.ZodType> {
  const fields = tables.flatMap((table) => Object.entries(table)).filter(([name]) => name !== 'type');
  return Object.fromEntries(fields.map(([name, field]) => [name, field.optional()]));
}

/** Every error below the base path for OpenAI's SDKs. */
export const nestedError = z
  .strictObject({
    error: z.strictObject({
      message,
      type: z.string().meta({ description: 'The type of the limit, `invalid_request_error` or `server_error`.' }),
      code: errorParts.code,
      param: z.string().nullable().meta({ description: 'The first invalid field.' }),
      ...errorParts.details,
    }),
  })
  .meta({ description: 'Every error below `/openai/v1`.' });

function bodyOf(code: ErrorCode): z.ZodType {
  const description = meanings[code];
  if (errorCodes[code].shape === 'flat') {
    return z.strictObject({ error: message, code: z.literal(code), ...extraFields[code] }).meta({ description });
  }
  const error = z.strictObject({ code: z.literal(code), message, param: z.null(), ...nestedFields[code] });
  return z.strictObject({ error }).meta({ description });
}
