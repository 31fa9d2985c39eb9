import test from 'ava';
import { ApiFailure, beyondFields, failureOf, fieldErrorsOf } from '../../../ingress/console/api/api-failure.ts';
import { refusedFields } from '../../../ingress/console/keys/key-form.ts';
import { parseFields } from '../../../ingress/listener/json-body.ts';
import { newKeyBody } from '../../../ingress/routes/key-fields.ts';
import { messageErrors } from '../../../shared/endpoints/messages/messages.ts';
import { ApiError, errorBody, errorLink, nestedErrorBody, rateLimitExceeded } from '../../../shared/errors.ts';

const docsUrl = 'https://docs.example';

const failureIn = (status: number, body: string, requestId: string | null, link: string | null = null) =>
  failureOf({ status, body, header: (name) => ({ 'x-request-id': requestId, link })[name] ?? null });

test('every error format gives message, code and request id', (t) => {
  const flat = errorBody(new ApiError('CONFLICT', 'It is in use.'), docsUrl);
  t.like(failureIn(409, JSON.stringify(flat), 'req_1'), {
    message: 'It is in use.',
    code: 'CONFLICT',
    status: 409,
    requestId: 'req_1',
  });
  const nested = errorBody(rateLimitExceeded('requests_limit', 'Too many.', 10), docsUrl);
  t.like(failureIn(429, JSON.stringify(nested), 'req_2'), { message: 'Too many.', code: 'rate_limit_exceeded' });
  const conflict = new ApiError('CONFLICT', 'It is in use.');
  for (const body of [
    nestedErrorBody(conflict, { docsUrl }),
    messageErrors.body(conflict, { docsUrl, requestId: 'req_3' }),
  ]) {
    t.like(failureIn(409, JSON.stringify(body), 'req_3'), {
      message: 'It is in use.',
      code: 'CONFLICT',
      requestId: 'req_3',
    });
  }
});

test('a response that is not from the API is reported as such', (t) => {
  for (const body of ['', '<html>502 Bad Gateway</html>', 'null', '[]', '"x"', '{"error":1}', '{"error":{}}']) {
    t.like(failureIn(502, body, null), {
      message: 'The response with status 502 does not come from the API.',
      code: 'not the API',
      requestId: undefined,
    });
  }
});

test('the page that explains an error is the one that the API links to, and no other address', (t) => {
  const limit = rateLimitExceeded('requests_limit', 'Too many.', 10);
  const helpOf = (link: string) => failureIn(429, '{}', null, link).helpUrl;
  t.is(helpOf(errorLink(limit, docsUrl)), `${docsUrl}/errors#requests_limit`);
  for (const link of [
    '',
    '<javascript:alert(1)>; rel="help"',
    '<https://a.example>; rel="next"',
    'https://a.example',
  ]) {
    t.is(helpOf(link), undefined, link);
  }
});

const received = (error: ApiError) =>
  failureOf({ status: 400, body: JSON.stringify(errorBody(error, docsUrl)), header: () => null });

function refusalOf(body: object): ApiError {
  try {
    parseFields(newKeyBody, body);
  } catch (error) {
    if (error instanceof ApiError) return error;
  }
  throw new Error('it was not refused');
}

test('each refused field of a key has its message', (t) => {
  const refused = refusalOf({
    name: '',
    expires_at: -1,
    endpoints: [],
    models: ['same', 'same'],
    allowed_ips: ['192.0.2.1', 'nonsense', '192.0.2.1/99'],
    limits: { requests_per_minute: 0, tokens_per_month: 1.5 },
  });
  const found = fieldErrorsOf(received(refused), refusedFields);
  t.deepEqual(Object.keys(found).toSorted(), [
    'allowed_ips',
    'endpoints',
    'expires_at',
    'limits.requests_per_minute',
    'limits.tokens_per_month',
    'models',
    'name',
  ]);
  t.is(found.name, 'expected 1 to 100 characters');
  t.is(found.endpoints, 'expected at least one entry');
  const expected = 'expected an IP address or a range in CIDR notation';
  t.is(found.allowed_ips, `entry 2: ${expected}; entry 3: ${expected}`);
});

test('what fields show is not repeated beside them', (t) => {
  const refused = received(new ApiError('VALIDATION_ERROR', 'name: too long; allowed_ips[1]: no address'));
  t.is(beyondFields(refused, ['name', 'allowed_ips']), undefined);
  const rest = beyondFields(refused, ['name']);
  t.true(rest instanceof ApiFailure);
  t.like(rest, { message: 'allowed_ips[1]: no address', code: 'VALIDATION_ERROR', status: 400 });
  t.is(beyondFields(refused, ['other']), refused);
  const conflict = received(new ApiError('CONFLICT', 'name: taken'));
  t.is(beyondFields(conflict, ['name']), conflict);
  t.is(beyondFields(undefined, ['name']), undefined);
});

test('other failures name no field of the form', (t) => {
  t.deepEqual(fieldErrorsOf(received(new ApiError('CONFLICT', 'name: taken')), ['name']), {});
  t.deepEqual(fieldErrorsOf(received(new ApiError('VALIDATION_ERROR', 'names: wrong; and more')), ['name']), {});
  t.deepEqual(fieldErrorsOf(new Error('name: wrong'), ['name']), {});
});
