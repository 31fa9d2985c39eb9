import test from 'ava';
import { messageEnding, messageErrors } from '../../../../shared/endpoints/messages/messages.ts';
import {
  ApiError,
  type ErrorCode,
  errorCodes,
  errorStatus,
  planLimit,
  quotaExceeded,
  rateLimitExceeded,
  upstreamsExhausted,
} from '../../../../shared/errors.ts';
import { sdkMessage } from '../../../support/endpoints/sdk-streams.ts';

const context = { requestId: 'req_1', docsUrl: 'https://docs.example.com' };
const inner = (error: ApiError) => (messageErrors.body(error, context) as { error: Record<string, unknown> }).error;

/** Anthropic's type by status. */
const types: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  500: 'api_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

test("every error has Anthropic's type for its status, our code, its message and the id of the request", (t) => {
  for (const code of Object.keys(errorCodes) as ErrorCode[]) {
    const status = errorStatus(code);
    const type = types[status] ?? 'invalid_request_error';
    const body = messageErrors.body(new ApiError(code, 'Why.'), context);
    t.like(body, { type: 'error', error: { type, message: 'Why.', code }, request_id: 'req_1' });
    t.deepEqual(Object.keys(body).sort(), ['error', 'request_id', 'type']);
  }
});

test('the extra fields of an error are kept, and the type of a limit is in `limit`', (t) => {
  t.deepEqual(inner(rateLimitExceeded('tokens_limit', 'Why.', 1_500)), {
    ...{ type: 'rate_limit_error', message: 'Why.', code: 'rate_limit_exceeded' },
    ...{ limit: 'tokens_limit', retry_after_ms: 1_500, docs: 'https://docs.example.com/errors#rate_limit_exceeded' },
  });
  t.like(inner(planLimit('m', 'free')), { type: 'rate_limit_error', limit: 'plan_limit', retry_after_ms: 0 });
  const spent = { resetDate: '2026-12-01', topupUrl: 'https://x', overageEnabled: false };
  t.like(inner(quotaExceeded(spent)), { type: 'billing_error', limit: 'quota_limit', ...spent });
  t.like(inner(upstreamsExhausted('guest', ['a', 'b'])), {
    type: 'overloaded_error',
    tier: 'guest',
    attempted: ['a', 'b'],
  });
});

test('a stream that breaks off ends with an error event, which the SDK throws with its type', async (t) => {
  const ended = messageEnding.broken(new ApiError('UPSTREAM_INTERRUPTED', 'It broke off.'), 'req_1');
  t.is(messageEnding.complete(), '');
  const error = await t.throwsAsync(sdkMessage(ended));
  t.like(error, { type: 'overloaded_error', apiMessage: 'It broke off.', requestID: 'req_1' });
  t.like(error, { error: { type: 'error', error: { code: 'UPSTREAM_INTERRUPTED' }, request_id: 'req_1' } });
});
