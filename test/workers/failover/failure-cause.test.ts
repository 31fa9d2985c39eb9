import test from 'ava';
import { errors } from 'undici';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import { classifyFailure } from '../../../workers/backend-client/exchange.ts';
import { causeOf } from '../../../workers/failover/failure-cause.ts';

const nodeError = (code: string, cause?: Error) => Object.assign(new Error(`${code} 10.0.0.1`, { cause }), { code });

for (const [failure, cause] of [
  [nodeError('ECONNREFUSED'), 'connection refused'],
  [nodeError('ENOTFOUND'), 'host name not found'],
  [nodeError('EPIPE'), 'connection closed by the server'],
  [new errors.SocketError('other side closed'), 'connection closed by the server'],
  [new Error('fetch failed', { cause: nodeError('CERT_HAS_EXPIRED') }), 'TLS certificate has expired'],
  [new AggregateError([nodeError('ECONNREFUSED')], 'all failed'), 'connection failed'],
  [nodeError('ESECRET'), 'connection failed'],
  ['no error', 'connection failed'],
  [new errors.ConnectTimeoutError('10.0.0.1:8000'), 'no connection'],
] as const) {
  test(`${String(failure)} is named: ${cause}`, (t) => {
    t.is(causeOf(classifyFailure(failure), undefined), cause);
  });
}

test('a status, an error in an answer and a time limit are named with their numbers, and never with words of the backend', (t) => {
  const said = { words: 'key sk-1 is wrong', kinds: ['invalid_api_key'] };
  t.is(causeOf(new BackendError('status', 'secret', { status: 401, said }), 401), 'HTTP 401');
  t.is(causeOf(new BackendError('said', 'secret', { said }), 401), 'an error in its answer, like HTTP 401');
  t.is(causeOf(new BackendError('said', 'secret', { said }), undefined), 'an error in its answer');
  t.is(causeOf(new BackendError('first_token_timeout', '', { waitedMs: 30_000 }), undefined), 'no token within 30 s');
  t.is(causeOf(new BackendError('idle_timeout', '', { waitedMs: 1_500 }), undefined), 'nothing within 1.5 s');
  t.is(
    causeOf(new BackendError('interrupted', 'the backend ended its answer with "x"'), undefined),
    'answer broke off',
  );
});
