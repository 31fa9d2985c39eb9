import test from 'ava';
import { failureOf } from '../../../ingress/console/api/api-failure.ts';
import { fieldErrorsOf } from '../../../ingress/console/api/field-errors.ts';
import { refusedFields } from '../../../ingress/console/keys/key-fields.ts';
import { parseFields } from '../../../ingress/listener/json-body.ts';
import { newKeyBody } from '../../../ingress/routes/key-fields.ts';
import { ApiError, errorBody } from '../../../shared/errors.ts';

const docsUrl = 'https://docs.example';
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

test('other failures name no field of the form', (t) => {
  t.deepEqual(fieldErrorsOf(received(new ApiError('CONFLICT', 'name: taken')), ['name']), {});
  t.deepEqual(fieldErrorsOf(received(new ApiError('VALIDATION_ERROR', 'names: wrong; and more')), ['name']), {});
  t.deepEqual(fieldErrorsOf(new Error('name: wrong'), ['name']), {});
});
