import type { z } from 'zod';

/**
 * Every error code of the service: its HTTP status, its body shape (one of two), and whether the same request can succeed later
 * (contract.md#t4-basic-errors, contract.md#b2-codes). `UPSTREAM_INTERRUPTED` is sent only in the error frame of a stream.
 */
export const errorCodes = {
  NO_AUTH: { status: 401, shape: 'flat', retryable: false },
  INVALID_KEY: { status: 401, shape: 'flat', retryable: false },
  KEY_EXPIRED: { status: 401, shape: 'flat', retryable: false },
  INVALID_TOKEN: { status: 401, shape: 'flat', retryable: false },
  VALIDATION_ERROR: { status: 400, shape: 'flat', retryable: false },
  FORBIDDEN: { status: 403, shape: 'flat', retryable: false },
  NOT_FOUND: { status: 404, shape: 'flat', retryable: false },
  METHOD_NOT_ALLOWED: { status: 405, shape: 'flat', retryable: false },
  REQUEST_TIMEOUT: { status: 408, shape: 'flat', retryable: true },
  CONFLICT: { status: 409, shape: 'flat', retryable: false },
  IDEMPOTENCY_RESULT_LOST: { status: 409, shape: 'flat', retryable: false },
  PAYLOAD_TOO_LARGE: { status: 413, shape: 'flat', retryable: false },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, shape: 'flat', retryable: false },
  IDEMPOTENCY_MISMATCH: { status: 422, shape: 'flat', retryable: false },
  UPGRADE_REQUIRED: { status: 426, shape: 'flat', retryable: false },
  HEADERS_TOO_LARGE: { status: 431, shape: 'flat', retryable: false },
  INTERNAL_ERROR: { status: 500, shape: 'flat', retryable: true },
  SERVICE_UNAVAILABLE: { status: 503, shape: 'flat', retryable: true },
  UPSTREAMS_EXHAUSTED: { status: 503, shape: 'flat', retryable: true },
  UPSTREAM_INTERRUPTED: { status: 503, shape: 'flat', retryable: true },
  DEADLINE_EXCEEDED: { status: 504, shape: 'flat', retryable: true },
  rate_limit_exceeded: { status: 429, shape: 'nested', retryable: true },
  quota_exceeded: { status: 402, shape: 'nested', retryable: false },
} as const satisfies Record<string, { status: number; shape: 'flat' | 'nested'; retryable: boolean }>;

export type ErrorCode = keyof typeof errorCodes;

type Fields = Readonly<Record<string, unknown>>;
type Options = {
  fields?: Fields;
  issues?: readonly ValidationIssue[];
  retryAfterMs?: number;
  headers?: Readonly<Record<string, string>>;
  openAi?: OpenAiError;
  cause?: unknown;
};

/** What OpenAI's own error would say, of which clients know the codes. It is sent where errors have OpenAI's shape. */
type OpenAiError = { code?: string; param?: string };

/** If an SDK would have to wait longer than this, it gets the error without a retry instead. */
const retryWaitMsMax = 60_000;
const defaultUnavailableWaitMs = 1_000;

/**
 * A failure for the client. `message` and `fields` are sent unchanged, so they never name a secret, a host or another caller. Details for
 * the operator go into `cause`, which is logged and never sent.
 */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ErrorCode;
  readonly fields: Fields;
  /** The issues of the request; `message` combines them. */
  readonly issues: readonly ValidationIssue[];
  readonly retryAfterMs: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly openAi: OpenAiError;

  constructor(code: ErrorCode, message: string, options: Options = {}) {
    super(message, { cause: options.cause });
    this.code = code;
    this.fields = options.fields ?? {};
    this.issues = options.issues ?? [];
    this.headers = options.headers ?? {};
    this.openAi = options.openAi ?? {};
    this.retryAfterMs = options.retryAfterMs ?? (errorStatus(code) === 503 ? defaultUnavailableWaitMs : undefined);
  }
}

export function errorStatus(code: ErrorCode): number {
  return errorCodes[code].status;
}

/** Returns one 400 with all invalid fields by their path, at most ten (contract.md#b5-validation-errors). */
export function validationError(issues: readonly ValidationIssue[], cause?: unknown): ApiError {
  const named = issues.slice(0, 10).map(({ path, message }) => `${path}: ${message}`);
  const more = issues.length > named.length ? '; and more' : '';
  return new ApiError('VALIDATION_ERROR', named.join('; ') + more, { cause, issues: issues.slice(0, 10) });
}

/**
 * `attempted` are the backend names in the order of the attempts, each once, and one may be called in `retryAfterMs`
 * (contract.md#b4-exhausted-backends).
 */
export function upstreamsExhausted(tier: string, attempted: readonly string[], retryAfterMs?: number): ApiError {
  return new ApiError('UPSTREAMS_EXHAUSTED', 'No model server could answer. Retry with exponential backoff.', {
    fields: { tier, attempted: [...new Set(attempted)] },
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
}

/** The only error for an internal part that is unavailable, or for a call that may or may not have been executed. */
export function temporarilyUnavailable(cause?: unknown): ApiError {
  return new ApiError('SERVICE_UNAVAILABLE', 'The service is not available right now. Retry.', { cause });
}

/** The job did not start within `queue_ms`. */
export function waitedTooLong(): ApiError {
  return new ApiError('SERVICE_UNAVAILABLE', 'The request waited too long in the queue.', { retryAfterMs: 5_000 });
}

/** Returns the error for a reply of which a part is missing: text that was already sent (`delivered`) cannot be taken back. */
export function replyLost(delivered: boolean): ApiError {
  if (delivered) return new ApiError('UPSTREAM_INTERRUPTED', 'The answer was interrupted.');
  return new ApiError('SERVICE_UNAVAILABLE', 'The answer was lost on its way. Retry.');
}

/** The error of a request whose client has disconnected, for the code that still handles the request. */
export function clientGone(): ApiError {
  return new ApiError('REQUEST_TIMEOUT', 'The client disconnected.');
}

/** The request did not end within `request_ms`. */
export function deadlineExceeded(): ApiError {
  return new ApiError('DEADLINE_EXCEEDED', 'The request was not finished before its deadline.');
}

export type BurstLimit =
  | `${'' | 'key_'}${'requests' | 'tokens'}_limit`
  | 'daily_limit'
  | 'concurrency_limit'
  | 'batch_limit'
  | 'auth_failures'
  | 'code_failures'
  | 'guest_calls'
  | 'guest_mints'
  | 'idempotency_limit'
  | 'settings_limit';

/** A limit that time lifts. `retryAfterMs` is the time until the same request would be admitted (contract.md#b8-honest-waits). */
export function rateLimitExceeded(type: BurstLimit, message: string, retryAfterMs: number): ApiError {
  const noUse = type === 'batch_limit' || retryAfterMs > retryWaitMsMax;
  return new ApiError('rate_limit_exceeded', message, {
    fields: { type, retry_after_ms: retryAfterMs },
    retryAfterMs,
    headers: { 'retry-after-ms': String(retryAfterMs), ...(noUse && { 'x-should-retry': 'false' }) },
  });
}

/** The model is not in the caller's plan; a retry does not help. */
export function planLimit(model: string, plan: string): ApiError {
  return new ApiError(
    'rate_limit_exceeded',
    `The model "${model}" is not available on the plan "${plan}". An upgrade is required, or choose an included model.`,
    { fields: { type: 'plan_limit', retry_after_ms: 0 }, headers: { 'x-should-retry': 'false' } },
  );
}

export type SpentQuota = { resetDate: string; topupUrl: string; overageEnabled: boolean };

/** The month's allowance is spent; `resetDate` is `YYYY-MM-DD`. `overageMax`: the tokens of overage, if these are spent, too. */
export function quotaExceeded(quota: SpentQuota, overageMax?: number): ApiError {
  const [and, what] =
    overageMax === undefined ? ['', 'Overage or a'] : [`, and so are ${overageMax} tokens of overage`, 'A'];
  return new ApiError(
    'quota_exceeded',
    `The monthly quota is used up${and}. It resets on ${quota.resetDate}. ${what} top-up lifts it earlier.`,
    { fields: { type: 'quota_limit', ...quota } },
  );
}

/** The month's limit of the key is spent; its account may have quota left. */
export function keyQuotaExceeded(quota: SpentQuota): ApiError {
  return new ApiError(
    'quota_exceeded',
    `The monthly limit of this API key is used up. It resets on ${quota.resetDate}. The owner of the key can raise it earlier.`,
    { fields: { type: 'key_quota_limit', ...quota } },
  );
}

/** Returns the error itself if it is one for clients, or else `INTERNAL_ERROR` with the original as its cause. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError('INTERNAL_ERROR', 'Something went wrong on our side.', { cause: error });
}

/**
 * Returns the JSON body in the code's shape (contract.md#b1-two-shapes). `docsUrl` is the address of the documentation, without a slash at
 * its end.
 */
export function errorBody(error: ApiError, docsUrl: string): Record<string, unknown> {
  const { code, message, fields } = error;
  if (errorCodes[code].shape === 'flat') return { error: message, code, ...fields };
  return { error: { code, message, param: null, ...errorDetails(error, docsUrl) } };
}

/** Returns the fields of the error beside its code and message. */
export function errorDetails({ code, fields }: ApiError, docsUrl: string): Readonly<Record<string, unknown>> {
  return code === 'rate_limit_exceeded' ? { ...fields, docs: errorPage(docsUrl, code) } : fields;
}

/** Returns the JSON body of the same error below `/openai/v1`: always nested (contract.md#b10-errors-by-base-url). */
export function nestedErrorBody(error: ApiError, { docsUrl }: { docsUrl: string }): Record<string, unknown> {
  const { code, message, issues, openAi } = error;
  const details = { type: typeOf(error), ...errorDetails(error, docsUrl) };
  const param = openAi.param ?? issues[0]?.path ?? null;
  return { error: { message, ...details, code: openAi.code ?? code, param } };
}

/** Returns the `Link` header with the documentation of the error (RFC 8288): of the limit if one was exceeded, or else of the code. */
export function errorLink({ code, fields }: ApiError, docsUrl: string): string {
  const about = errorCodes[code].shape === 'nested' && typeof fields.type === 'string' ? fields.type : code;
  return `<${errorPage(docsUrl, about)}>; rel="help"`;
}

function errorPage(docsUrl: string, anchor: string): string {
  return `${docsUrl}/errors#${anchor}`;
}

/** Returns the last frame of a stream that fails after its start, for any code (contract.md#d4-broken-streams). */
export function errorFrame(error: ApiError): {
  error: { code: string; type: unknown; message: string; param: string | null };
} {
  const { code, message, openAi } = error;
  return { error: { code: openAi.code ?? code, type: typeOf(error), message, param: openAi.param ?? null } };
}

function typeOf({ code, fields }: ApiError): unknown {
  return fields.type ?? (errorStatus(code) < 500 ? 'invalid_request_error' : 'server_error');
}

/** Some clients repeat them if nothing says that it is of no use: Claude Code a 401, the SDKs a 409. */
const finalStatuses: readonly number[] = [401, 402, 403, 404, 409, 426];

/**
 * Returns the headers that control retries of the official SDKs (contract.md#b6-sdk-retry-headers); a 401 also names its scheme (RFC 9110
 * 11.6.1).
 */
export function errorHeaders({ code, headers, retryAfterMs }: ApiError): Record<string, string> {
  const status = errorStatus(code);
  return {
    ...(status === 401 && { 'www-authenticate': 'Bearer' }),
    ...(retryAfterMs !== undefined && { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }),
    ...(finalStatuses.includes(status) && { 'x-should-retry': 'false' }),
    ...headers,
  };
}

/**
 * An issue and its place: `path` is `messages[2].content`, empty for the input itself. `refused` is set if the operator's settings do not
 * allow the value: the name that it is counted by, one of a few.
 */
export type ValidationIssue = { path: string; message: string; refused?: string };

/** The same with the parts of its path. */
export type PathIssue = { path: readonly PropertyKey[]; message: string };

/** Returns every issue of a failed validation by its path, in terms of the input. Values are never repeated. */
export function validationIssuesOf(error: z.ZodError): ValidationIssue[] {
  return pathIssuesOf(error).map(({ path, message }) => ({ path: pathText(path), message }));
}

export function pathIssuesOf(error: z.ZodError): PathIssue[] {
  return error.issues.flatMap((issue): PathIssue[] => {
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => ({ path: [...issue.path, key], message: 'is not known' }));
    }
    return [{ path: issue.path, message: messageOf(issue) }];
  });
}

export function pathText(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`;
    const name = fieldPath(String(part));
    return text === '' ? name : `${text}.${name}`;
  }, '');
}

/** A field without a name is written `""`, because an empty path means the input itself. */
export function fieldPath(name: string): string {
  return name === '' ? '""' : name;
}

function messageOf(issue: z.core.$ZodIssue): string {
  const message = issue.message.replace(/^Invalid input: /, '');
  return message.charAt(0).toLowerCase() + message.slice(1);
}
