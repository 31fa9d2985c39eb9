import test from 'ava';
import { errors } from 'undici';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import { classifyFailure, classifyStatus } from '../../../workers/exchange/classify-failure.ts';
import { withoutAddresses } from '../../../workers/exchange/relayed-text.ts';

const bodies = [
  { error: { message: 'The context is too long.' } },
  { error: 'The context is too long.' },
  { message: 'The context is too long.', object: 'error' },
  { detail: 'The context is too long.' },
];

for (const status of [400, 413, 422]) {
  for (const body of bodies) {
    test(`${status} ${JSON.stringify(body)} is the client's error, with the backend's message`, (t) => {
      t.like(classifyStatus({ status, body: JSON.stringify(body) }), {
        outcome: 'refused_request',
        message: 'The context is too long.',
      });
    });
  }
}

for (const body of [
  '',
  'not JSON',
  '{}',
  '[]',
  'null',
  '{"error":{"message":""}}',
  '{"error":" "}',
  '{"detail":[{"msg":"x"}]}',
]) {
  test(`a refusal without a readable message, ${JSON.stringify(body)}, has our message`, (t) => {
    t.like(classifyStatus({ status: 400, body }), {
      outcome: 'refused_request',
      message: 'The model server refused the request.',
    });
  });
}

for (const status of [301, 401, 403, 404, 408, 409, 429, 500, 502, 503, 504]) {
  test(`${status} is a failure of the backend, and its message is not relayed`, (t) => {
    const error = classifyStatus({ status, body: '{"error":{"message":"secret"}}' });
    t.like(error, { outcome: 'status', message: `the backend answered ${status}` });
  });
}

test("the key of the call is removed from the backend's message", (t) => {
  const body = JSON.stringify({ message: 'The key hunter2 has no access to this model.' });
  const message = 'The key [key] has no access to this model.';
  t.is(classifyStatus({ status: 400, body, apiKey: 'hunter2' }).message, message);
});

test('a backend whose messages are not relayed has our message', (t) => {
  const refusal = { status: 400, body: JSON.stringify({ message: 'The context is too long.' }) };
  t.is(classifyStatus({ ...refusal, relayMessages: false }).message, 'The model server refused the request.');
  t.is(classifyStatus({ ...refusal, relayMessages: true }).message, 'The context is too long.');
});

test('a long message is cut to 500 characters', (t) => {
  const { message } = classifyStatus({ status: 400, body: JSON.stringify({ message: 'word '.repeat(10_000) }) });
  t.true(message.length <= 500);
  t.true(message.startsWith('word word'));
});

test('a message that is made to be slow to process is processed quickly', (t) => {
  const slow = [
    'a-'.repeat(30_000),
    ':'.repeat(60_000),
    '[:'.repeat(30_000),
    `${'1.'.repeat(30_000)}:`,
    'a.'.repeat(30_000),
  ];
  const before = process.cpuUsage();
  for (const message of slow) classifyStatus({ status: 400, body: JSON.stringify({ message }) });
  t.true(process.cpuUsage(before).user < 2_000_000);
});

const addresses = [
  'http://10.0.0.7:8000/v1/chat/completions?x=1',
  'https://gpu-3.example.com',
  'tcp://vllm:8000',
  '10.0.0.7',
  '10.0.0.7:8000',
  '192.168.10.25',
  '[::1]:8000',
  '[2001:db8::1]',
  '::1',
  '2001:db8::1',
  '2001:db8:0:1:2:3:4:5',
  'fe80::1%eth0',
  '::ffff:10.0.0.7',
  'localhost:8000',
  'host.internal:8084',
  'gpu-3.example.com:443',
  'vllm-0.models.svc.cluster.local:8000',
  'vllm:8000',
  '10gpu:8000',
  'vllm.internal',
  'host.docker.internal',
];

for (const address of addresses) {
  test(`removes the address ${address}, alone and in a sentence`, (t) => {
    t.is(withoutAddresses(address), '[address]');
    t.is(withoutAddresses(`Connect to ${address} failed.`), 'Connect to [address] failed.');
  });
}

const harmless = [
  'The prompt is too long: 9000 tokens, 8192 allowed.',
  'messages[0]: content is missing',
  'messages[2].content:12 expected a string',
  'At 12:30 the model was unloaded.',
  'since 2026-11-20T12:30:45Z, or 12:30:45.123',
  'a ratio of 16:10 or 4:3:2:1',
  'one image of 1:1024 tokens',
  'no method bad::face',
  'std::vector and Foo::Bar, temperature: 2.5, top_p:1.0, n::',
  'max_tokens: 4096 is larger than max_model_len=2048',
  'the model qwen2.5:72b is not loaded',
  'Error code: 400 - {"object":"error"}',
];

for (const message of harmless) {
  test(`keeps unchanged: ${message}`, (t) => {
    t.is(withoutAddresses(message), message);
  });
}

test('classifies a failed connection by its kind, and keeps the cause for the log', (t) => {
  const table = [
    [new errors.ConnectTimeoutError('x'), 'connect_timeout'],
    [new errors.HTTPParserError('x'), 'unreadable'],
    [new errors.ResponseContentLengthMismatchError('x'), 'unreadable'],
    [new errors.SocketError('x'), 'connection'],
    [Object.assign(new Error('x'), { code: 'ECONNREFUSED' }), 'connection'],
    ['not even an error', 'connection'],
  ] as const;
  for (const [failure, outcome] of table) {
    const error = classifyFailure(failure);
    t.true(error instanceof BackendError);
    t.is(error.outcome, outcome);
    t.is(error.cause, failure);
  }
});

test('a classified failure is returned unchanged', (t) => {
  const error = new BackendError('idle_timeout', 'nothing for 5 ms');
  t.is(classifyFailure(error), error);
});

const now = Date.UTC(2026, 0, 1);
const retryAfter: [string, Record<string, string>, number | undefined][] = [
  ['seconds', { 'retry-after': '7' }, 7_000],
  ['many seconds', { 'retry-after': '30' }, 30_000],
  ['no wait', { 'retry-after': '0' }, undefined],
  ['a date', { 'retry-after': new Date(now + 30_000).toUTCString() }, 30_000],
  ['milliseconds', { 'retry-after-ms': '250', 'retry-after': '1' }, 250],
  ['ten minutes at most', { 'retry-after': '86400' }, 600_000],
  ['a past date', { 'retry-after': new Date(now - 30_000).toUTCString() }, undefined],
  ['not a time', { 'retry-after': 'soon' }, undefined],
  ['a negative time', { 'retry-after': '-5', 'retry-after-ms': '-5' }, undefined],
  ['no header', {}, undefined],
];
for (const [title, headers, retryAfterMs] of retryAfter) {
  test(`reads the pause that a backend asks for: ${title}`, (t) => {
    t.is(classifyStatus({ status: 429, body: '', headers, now }).retryAfterMs, retryAfterMs);
  });
}
