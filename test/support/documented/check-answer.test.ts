import test from 'ava';
import { requireDocumented, type SeenAnswer, undocumentedIn, undocumentedInEvent } from './check-answer.ts';

const json = { 'content-type': 'application/json; charset=utf-8', 'x-request-id': 'req_01KBN4V4W0R2E9Z6Y5QH3T8MXA' };
const plan = { key: 'svc_', plan: 'free' };

type Wishes = { method?: string; path?: string; status?: number; headers?: Record<string, string>; body?: unknown };

function answer({ method = 'POST', path = '/v1/keys/developer', status = 200, headers = {}, body = plan }: Wishes) {
  const all: Record<string, string> = { ...json, ...headers };
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return { method, path, status, header: (name: string) => all[name], body: text } satisfies SeenAnswer;
}

const faultsOf = (wishes: Wishes) => undocumentedIn(answer(wishes)).join('; ');
const noAuth = { error: 'No.', code: 'NO_AUTH' };
const link = '<https://docs.example.com/errors#NO_AUTH>; rel="help"';
const bearer = { 'www-authenticate': 'Bearer', link };

test('a response as documented has no faults', (t) => {
  t.is(faultsOf({}), '');
  t.is(faultsOf({ status: 401, headers: bearer, body: noAuth }), '');
  t.is(faultsOf({ method: 'GET', path: '/no/such?x=1', status: 404, body: { error: 'No.', code: 'NOT_FOUND' } }), '');
  t.is(faultsOf({ method: 'PUT', status: 405, body: { error: 'No.', code: 'METHOD_NOT_ALLOWED' } }), '');
  t.is(faultsOf({ method: 'HEAD', path: '/v1/models/a/b', body: '' }), '');
  t.is(faultsOf({ method: 'OPTIONS', status: 204, body: '' }), '');
  t.notThrows(() => requireDocumented(answer({})));
});

test('deviations from the document are found: status, type, fields, codes, headers, paths', (t) => {
  t.regex(faultsOf({ status: 418 }), /status 418/);
  t.regex(faultsOf({ headers: { 'content-type': 'text/html' } }), /type "text\/html"/);
  t.regex(faultsOf({ body: { ...plan, hash: 'x' } }), /must NOT have additional properties .*"hash"/);
  t.regex(faultsOf({ body: { key: 'svc_' } }), /must have required property 'plan'/);
  t.regex(faultsOf({ body: { key: 1, plan: 'free' } }), /\/key must be string/);
  t.regex(
    faultsOf({ status: 401, headers: bearer, body: { error: 'No.', code: 'FORBIDDEN' } }),
    /\/code must be equal/,
  );
  t.regex(faultsOf({ status: 401, headers: bearer, body: { error: { code: 'NO_AUTH' } } }), /\/error must be string/);
  t.is(faultsOf({ status: 401, headers: { link }, body: noAuth }), 'there is no www-authenticate');
  t.is(faultsOf({ status: 401, headers: { 'www-authenticate': 'Bearer' }, body: noAuth }), 'there is no link');
  t.regex(faultsOf({ headers: { 'x-request-id': '1' } }), /x-request-id is 1/);
  t.regex(faultsOf({ headers: { 'retry-after': '1' } }), /retry-after is not documented/);
  t.regex(faultsOf({ path: '/v1/other' }), /path is not documented, and answers 200/);
  t.regex(faultsOf({ status: 404, body: { error: 'No.', code: 'NOT_FOUND' } }), /status 404/);
  t.throws(() => requireDocumented(answer({ status: 418 })), {
    message: /^POST \/v1\/keys\/developer: 418 not as doc/,
  });
});

test('an event of a stream is a chunk, an error of the service, or the end', (t) => {
  const faultsIn = (event: string) => undocumentedInEvent('/v1/chat/completions', event);
  t.deepEqual(faultsIn('data: [DONE]'), []);
  t.deepEqual(faultsIn(': waiting'), []);
  t.deepEqual(faultsIn('data: {"model":"m","choices":[]}'), []);
  const error = { code: 'UPSTREAM_INTERRUPTED', type: 'server_error', message: 'It broke off.', param: null };
  t.deepEqual(faultsIn(`data: ${JSON.stringify({ error })}`), []);
  t.true(faultsIn('data: {"choices":[]}').length > 0);
  t.true(faultsIn('event: chunk\ndata: {"model":"m","choices":[]}').length > 0);
  t.true(faultsIn(`data: ${JSON.stringify({ error: { ...error, code: 'OTHER' } })}`).length > 0);
  t.true(undocumentedInEvent('/v1/embeddings', 'data: {}').length > 0);
});

test('an event with a name has a documented form, and the name is its type', (t) => {
  const faultsIn = (path: string, value: { type: string }, name: string = value.type) =>
    undocumentedInEvent(path, `event: ${name}\ndata: ${JSON.stringify(value)}`);
  const ping = { type: 'ping' };
  t.deepEqual(faultsIn('/v1/messages', ping), []);
  t.true(faultsIn('/v1/messages', ping, 'pong').length > 0);
  t.true(undocumentedInEvent('/v1/messages', `data: ${JSON.stringify(ping)}`).length > 0);
  t.true(undocumentedInEvent('/v1/messages', 'data: [DONE]').length > 0);
  const failure = { type: 'api_error', message: 'It broke off.', code: 'UPSTREAM_INTERRUPTED' };
  t.deepEqual(faultsIn('/v1/messages', { type: 'error', error: failure, request_id: 'req_1' } as { type: string }), []);
  t.true(faultsIn('/v1/messages', { type: 'error', error: failure } as { type: string }).length > 0);
  const error = { code: 'UPSTREAM_INTERRUPTED', message: 'It broke off.', param: null };
  const event = { type: 'error', ...error, sequence_number: 4, error: { ...error, type: 'server_error' } };
  t.deepEqual(faultsIn('/openai/v1/responses', event), []);
  t.true(faultsIn('/v1/responses', { ...event, code: 'OTHER' } as { type: string }).length > 0);
});

test('errors have the shape of their path', (t) => {
  const failure = { message: 'No.', code: 'NOT_FOUND' };
  const anthropic = { type: 'error', error: { type: 'not_found_error', ...failure }, request_id: 'req_1' };
  const nested = { error: { type: 'invalid_request_error', ...failure, param: null } };
  const flat = { error: 'No.', code: 'NOT_FOUND' };
  const faults = (path: string, body: object) => faultsOf({ method: 'GET', path, status: 404, body });
  t.is(faults('/v1/messages/batches', anthropic), '');
  t.is(faults('/openai/v1/none', nested), '');
  t.is(faults('/v1/none', flat), '');
  t.not(faults('/v1/messages/batches', flat), '');
  t.not(faults('/openai/v1/none', flat), '');
  const refused = (path: string, body: object) => faultsOf({ path, status: 400, headers: { link }, body });
  const invalid = { message: 'No.', code: 'VALIDATION_ERROR' };
  const asNested = { error: { type: 'invalid_request_error', ...invalid, param: 'model' } };
  const asAnthropic = { type: 'error', error: { type: 'invalid_request_error', ...invalid }, request_id: 'req_1' };
  t.is(refused('/openai/v1/messages', asNested), '');
  t.is(refused('/v1/messages', asAnthropic), '');
  t.is(refused('/v1/responses', { error: 'No.', code: 'VALIDATION_ERROR' }), '');
  t.not(refused('/v1/messages', asNested), '');
  t.not(refused('/v1/messages', { ...asAnthropic, error: { ...asAnthropic.error, code: 'NO_AUTH' } }), '');
  t.not(refused('/openai/v1/responses', { error: { ...asNested.error, code: 'NO_AUTH' } }), '');
});
