import test from 'ava';
import { failureOf } from '../../../ingress/console/api/api-failure.ts';
import { messageErrors } from '../../../shared/endpoints/messages/message-errors.ts';
import { ApiError, errorBody, nestedErrorBody, rateLimitExceeded } from '../../../shared/errors.ts';

const docsUrl = 'https://docs.example';

test('every error format gives message, code and request id', (t) => {
  const flat = errorBody(new ApiError('CONFLICT', 'It is in use.'), docsUrl);
  t.like(failureOf(409, JSON.stringify(flat), 'req_1'), {
    message: 'It is in use.',
    code: 'CONFLICT',
    status: 409,
    requestId: 'req_1',
  });
  const nested = errorBody(rateLimitExceeded('requests_limit', 'Too many.', 10), docsUrl);
  t.like(failureOf(429, JSON.stringify(nested), 'req_2'), { message: 'Too many.', code: 'rate_limit_exceeded' });
  const conflict = new ApiError('CONFLICT', 'It is in use.');
  for (const body of [
    nestedErrorBody(conflict, { docsUrl }),
    messageErrors.body(conflict, { docsUrl, requestId: 'req_3' }),
  ]) {
    t.like(failureOf(409, JSON.stringify(body), 'req_3'), {
      message: 'It is in use.',
      code: 'CONFLICT',
      requestId: 'req_3',
    });
  }
});

test('a response that is not from the API is reported as such', (t) => {
  for (const body of ['', '<html>502 Bad Gateway</html>', 'null', '[]', '"x"', '{"error":1}', '{"error":{}}']) {
    t.like(failureOf(502, body, null), {
      message: 'The response with status 502 does not come from the API.',
      code: 'not the API',
      requestId: undefined,
    });
  }
});
