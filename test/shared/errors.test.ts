import test from 'ava';
import { z } from 'zod';
import {
  ApiError,
  type ErrorCode,
  errorBody,
  errorCodes,
  errorFrame,
  errorHeaders,
  errorLink,
  errorStatus,
  planLimit,
  quotaExceeded,
  rateLimitExceeded,
  toApiError,
  upstreamsExhausted,
  validationError,
  validationIssuesOf,
} from '../../shared/errors.ts';
import { decodeEntry, encodeFrame, packError, unpackError } from '../../shared/jobs/replies.ts';

const docsUrl = 'https://docs.example';
const seen = (error: ApiError) => ({
  status: errorStatus(error.code),
  body: errorBody(error, docsUrl),
  headers: errorHeaders(error),
  frame: errorFrame(error),
});

const statuses: Record<ErrorCode, number> = {
  NO_AUTH: 401,
  INVALID_KEY: 401,
  KEY_EXPIRED: 401,
  INVALID_TOKEN: 401,
  VALIDATION_ERROR: 400,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  REQUEST_TIMEOUT: 408,
  CONFLICT: 409,
  IDEMPOTENCY_RESULT_LOST: 409,
  PAYLOAD_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  IDEMPOTENCY_MISMATCH: 422,
  UPGRADE_REQUIRED: 426,
  HEADERS_TOO_LARGE: 431,
  INTERNAL_ERROR: 500,
  SERVICE_UNAVAILABLE: 503,
  UPSTREAMS_EXHAUSTED: 503,
  UPSTREAM_INTERRUPTED: 503,
  DEADLINE_EXCEEDED: 504,
  rate_limit_exceeded: 429,
  quota_exceeded: 402,
};

const retryable: readonly ErrorCode[] = [
  'REQUEST_TIMEOUT',
  'INTERNAL_ERROR',
  'SERVICE_UNAVAILABLE',
  'UPSTREAMS_EXHAUSTED',
  'UPSTREAM_INTERRUPTED',
  'DEADLINE_EXCEEDED',
  'rate_limit_exceeded',
];

test('every code has the specified status, shape and retryability', (t) => {
  t.deepEqual(Object.keys(errorCodes).sort(), Object.keys(statuses).sort());
  for (const [code, { status, shape, retryable: canHelp }] of Object.entries(errorCodes)) {
    t.is(status as number, statuses[code as ErrorCode], code);
    t.is(shape, code === code.toLowerCase() ? 'nested' : 'flat', code);
    t.is(canHelp, retryable.includes(code as ErrorCode), code);
  }
});

test('a flat body is exactly {error, code}', (t) => {
  for (const [code, { shape }] of Object.entries(errorCodes)) {
    if (shape === 'flat') {
      t.deepEqual(errorBody(new ApiError(code as ErrorCode, 'Why.'), docsUrl), { error: 'Why.', code });
    }
  }
});

test('UPSTREAMS_EXHAUSTED names the tier and each backend once, in the order tried', (t) => {
  const { status, body, headers } = seen(upstreamsExhausted('standard', ['b', 'a', 'b', 'cloud', 'a']));
  t.is(status, 503);
  t.like(body, { code: 'UPSTREAMS_EXHAUSTED', tier: 'standard', attempted: ['b', 'a', 'cloud'] });
  t.deepEqual(Object.keys(body).sort(), ['attempted', 'code', 'error', 'tier']);
  t.is(typeof body.error, 'string');
  t.deepEqual(headers, { 'retry-after': '1' });
});

test('each error links to its place in the documentation, a limit to that of its type', (t) => {
  const linkTo = (anchor: string) => `<${docsUrl}/errors#${anchor}>; rel="help"`;
  for (const [code, { shape }] of Object.entries(errorCodes)) {
    const fields = shape === 'flat' ? { type: 'ours' } : {};
    t.is(errorLink(new ApiError(code as ErrorCode, 'Why.', { fields }), docsUrl), linkTo(code));
  }
  t.is(errorLink(rateLimitExceeded('daily_limit', 'Later.', 1), docsUrl), linkTo('daily_limit'));
  t.is(errorLink(planLimit('large-chat', 'free'), docsUrl), linkTo('plan_limit'));
  const quota = { resetDate: '2026-12-01', topupUrl: 'https://console.example', overageEnabled: false };
  t.is(errorLink(quotaExceeded(quota), docsUrl), linkTo('quota_limit'));
});

test('a burst limit gives the wait in three fields, in whole seconds rounded up and at least one', (t) => {
  const waits: [number, string][] = [
    [0, '1'],
    [1, '1'],
    [1_000, '1'],
    [1_001, '2'],
    [59_999, '60'],
    [60_000, '60'],
  ];
  for (const [ms, seconds] of waits) {
    const { status, body, headers } = seen(rateLimitExceeded('requests_limit', 'Too many requests.', ms));
    t.is(status, 429);
    t.deepEqual(body, {
      error: {
        code: 'rate_limit_exceeded',
        message: 'Too many requests.',
        type: 'requests_limit',
        param: null,
        retry_after_ms: ms,
        docs: `${docsUrl}/errors#rate_limit_exceeded`,
      },
    });
    t.deepEqual(headers, { 'retry-after': seconds, 'retry-after-ms': String(ms) });
  }
});

test('a wait over a minute, and any wait of batches, makes SDKs not retry', (t) => {
  for (const [type, ms, seconds] of [
    ['daily_limit', 60_001, '61'],
    ['daily_limit', 86_400_000, '86400'],
    ['batch_limit', 60_000, '60'],
    ['batch_limit', 1_000, '1'],
  ] as const) {
    t.deepEqual(seen(rateLimitExceeded(type, 'Later.', ms)).headers, {
      'retry-after': seconds,
      'retry-after-ms': String(ms),
      'x-should-retry': 'false',
    });
  }
});

test('plan_limit names model and upgrade, with a wait of 0 and no Retry-After', (t) => {
  const { status, body, headers } = seen(planLimit('large-chat', 'free'));
  t.is(status, 429);
  const { error } = body as { error: { message: string } };
  t.regex(error.message, /"large-chat" is not available on the plan "free".*upgrade is required/);
  t.deepEqual(error, {
    code: 'rate_limit_exceeded',
    message: error.message,
    type: 'plan_limit',
    param: null,
    retry_after_ms: 0,
    docs: `${docsUrl}/errors#rate_limit_exceeded`,
  } as object);
  t.deepEqual(headers, { 'x-should-retry': 'false' });
});

test('quota_exceeded has the reset date, top-up link and overage, and is not retried', (t) => {
  const quota = { resetDate: '2026-12-01', topupUrl: 'https://console.example/#top-up', overageEnabled: false };
  const { status, body, headers } = seen(quotaExceeded(quota));
  t.is(status, 402);
  const { error } = body as { error: { message: string } };
  t.regex(error.message, /monthly quota is used up.*2026-12-01/);
  t.deepEqual(error, {
    code: 'quota_exceeded',
    message: error.message,
    type: 'quota_limit',
    param: null,
    ...quota,
  } as object);
  t.deepEqual(headers, { 'x-should-retry': 'false' });
});

test('401 names its scheme, statuses that a retry cannot change say so, every 503 has a Retry-After', (t) => {
  for (const [name, { status }] of Object.entries(errorCodes)) {
    const headers = errorHeaders(new ApiError(name as ErrorCode, 'Why.'));
    t.is(headers['www-authenticate'], status === 401 ? 'Bearer' : undefined, name);
    t.is(headers['x-should-retry'], [401, 402, 403, 404, 409, 426].includes(status) ? 'false' : undefined, name);
    t.is(headers['retry-after'], status === 503 ? '1' : undefined, name);
  }
  t.is(errorHeaders(new ApiError('SERVICE_UNAVAILABLE', 'Later.', { retryAfterMs: 4_500 }))['retry-after'], '5');
  t.is(errorHeaders(new ApiError('METHOD_NOT_ALLOWED', 'No.', { headers: { Allow: 'GET' } })).Allow, 'GET');
});

test('a frame in a stream is {error: {code, type, message, param}} for every code', (t) => {
  for (const [name, { status }] of Object.entries(errorCodes)) {
    const type = status < 500 ? 'invalid_request_error' : 'server_error';
    const frame = errorFrame(new ApiError(name as ErrorCode, 'Why.'));
    t.deepEqual(frame, { error: { code: name, type, message: 'Why.', param: null } });
  }
  t.like(seen(rateLimitExceeded('tokens_limit', 'Slow down.', 5)).frame, { error: { type: 'tokens_limit' } });
});

test('no field that the client sees is lost between worker and ingress', (t) => {
  const failures = [
    upstreamsExhausted('guest', ['a', 'b']),
    validationError([{ path: 'messages[0].content', message: 'expected a string or an array' }]),
    rateLimitExceeded('daily_limit', 'Tomorrow.', 3_600_000),
    planLimit('large-chat', 'free'),
    quotaExceeded({ resetDate: '2026-12-01', topupUrl: 'https://console.example', overageEnabled: true }),
    new ApiError('SERVICE_UNAVAILABLE', 'Later.', { retryAfterMs: 5_000, headers: { 'x-reason': 'full' } }),
    new ApiError('CONFLICT', 'Twice.'),
    toApiError(new Error('at 10.0.0.1')),
  ];
  for (const error of failures) {
    const sent = encodeFrame([{ request: 'r', run: 1, sequence: 0, kind: 'error', data: packError(error) }]);
    const [reply] = decodeEntry(sent);
    if (reply?.kind !== 'error') return t.fail(`${error.code} was not preserved`);
    t.deepEqual(seen(unpackError(reply.data)), seen(error));
    t.is(unpackError(reply.data).cause, undefined);
  }
});

test('names at most ten invalid fields, and says that there are more', (t) => {
  const faults = Array.from({ length: 13 }, (_, index) => ({ path: `messages[${index}]`, message: 'is wrong' }));
  const named = faults.slice(0, 10).map(({ path }) => `${path}: is wrong`);
  t.is(validationError(faults.slice(0, 1)).message, 'messages[0]: is wrong');
  t.is(validationError(faults.slice(0, 10)).message, named.join('; '));
  t.is(validationError(faults).message, `${named.join('; ')}; and more`);
});

test('the cause of a failure is kept for the log and never sent', (t) => {
  const cause = new Error('connect ECONNREFUSED redis.internal:6379');
  for (const code of Object.keys(errorCodes) as ErrorCode[]) {
    const error = new ApiError(code, 'Why.', { cause });
    t.is(error.cause, cause);
    t.false(JSON.stringify([seen(error), packError(error)]).includes('redis.internal'), code);
  }
  t.is(toApiError(cause).cause, cause);
  t.false(JSON.stringify(seen(toApiError(cause))).includes('redis.internal'));
  t.is(toApiError('thrown text').code, 'INTERNAL_ERROR');
  const own = new ApiError('NOT_FOUND', 'No.');
  t.is(toApiError(own), own);
});

const schema = z.strictObject({
  messages: z.array(z.strictObject({ content: z.string() })),
  count: z.int().positive(),
  names: z.record(z.string(), z.number()),
});

const right = { messages: [{ content: 'a' }], count: 1, names: {} };

function faultsIn(value: unknown) {
  const parsed = schema.safeParse(value);
  return parsed.success ? [] : validationIssuesOf(parsed.error);
}

test('names every fault by its path, with a message for the author of the input', (t) => {
  t.deepEqual(faultsIn(right), []);
  t.deepEqual(faultsIn({ messages: [{ content: 'a' }, { content: 1 }], count: -1, names: { 'a.b': 'x' } }), [
    { path: 'messages[1].content', message: 'expected string, received number' },
    { path: 'count', message: 'too small: expected number to be >0' },
    { path: 'names.a.b', message: 'expected number, received string' },
  ]);
  t.deepEqual(faultsIn({ ...right, messages: undefined }), [
    { path: 'messages', message: 'expected array, received undefined' },
  ]);
});

test('names each unknown field by its own path', (t) => {
  t.deepEqual(faultsIn({ ...right, a: 1, b: 2, messages: [{ content: 'a', c: 3 }] }), [
    { path: 'messages[0].c', message: 'is not known' },
    { path: 'a', message: 'is not known' },
    { path: 'b', message: 'is not known' },
  ]);
});

test('the input as such has an empty path', (t) => {
  t.deepEqual(faultsIn(null), [{ path: '', message: 'expected object, received null' }]);
});

test('never repeats a value', (t) => {
  const secret = 'svc_secret';
  const faults = faultsIn({ messages: secret, count: secret, names: { a: secret } });
  t.is(faults.length, 3);
  t.false(JSON.stringify(faults).includes(secret));
});
