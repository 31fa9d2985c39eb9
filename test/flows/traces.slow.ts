import test, { type ExecutionContext } from 'ava';
import type { LogLine } from '../stack/service-process.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import { chat } from '../support/chat.ts';
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../support/otlp/otlp-receiver.ts';

const guests = { tier: 'guest', pool: 'default' };
const secretWord = 'xylophone-in-the-body';
const receiverToken = 'secret-of-the-receiver';
const apiKeyOfBackend = 'secret-of-the-backend';
const route = 'POST /v1/chat/completions';
/** Span kinds of OTLP. */
const [internal, server, client, producer, consumer] = [1, 2, 3, 4, 5];

let receiver: OtlpReceiver;
let stack: Stack;
let key: string;

test.before(async () => {
  receiver = await startOtlpReceiver();
  stack = await startStack({
    models: {
      'one-chat': { ...guests, backends: ['onprem-a'] },
      'two-chat': { ...guests, backends: ['onprem-b', 'cloud'] },
      'broken-chat': { ...guests, backends: ['onprem-a'] },
      'slow-chat': { ...guests, backends: ['onprem-a'] },
    },
    backends: { 'onprem-a': { api_key_env: 'BACKEND_KEY' } },
    env: {
      BACKEND_KEY: apiKeyOfBackend,
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_HEADERS: `x-receiver-token=${receiverToken}`,
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
      OTEL_SEMCONV_STABILITY_OPT_IN: 'http,gen_ai_latest_experimental',
    },
  });
  key = await stack.mintKey('alice');
});

test.after.always(async () => {
  await stack?.[Symbol.asyncDispose]();
  await receiver?.[Symbol.asyncDispose]();
});

type Asking = Partial<Parameters<typeof chat>[0]>;

async function ask(options: Asking = {}): Promise<{ answer: Response; line: LogLine }> {
  const url = stack.ingresses[0]?.url ?? '';
  const answer = await chat({ url, key, question: secretWord, model: 'one-chat', ...options });
  await answer.text();
  const id = answer.headers.get('x-request-id');
  const line = await stack.ingresses[0]?.process.line(
    ({ requestId, durationMs }) => requestId === id && durationMs !== undefined,
  );
  if (line === undefined) throw new Error('the stack has an ingress');
  return { answer, line };
}

/** The spans of a request whose run has ended, by name. */
async function spansOf(options: Asking = {}, calls = 1): Promise<{ line: LogLine; all: ReceivedSpan[]; find: Find }> {
  const { line } = await ask(options);
  const traceId = String(line.traceId);
  await receiver.trace(traceId, route);
  await receiver.trace(traceId, /^process /);
  const all = await receiver.trace(traceId, /^chat /, calls);
  return { line, all, find: finder(all) };
}

type Find = (name: string) => ReceivedSpan;

function finder(spans: readonly ReceivedSpan[]): Find {
  return function find(name) {
    const [span, ...more] = spans.filter((each) => each.name === name);
    if (span === undefined || more.length > 0) throw new Error(`no span, or several: ${name}`);
    return span;
  };
}

function hasParents(t: ExecutionContext, find: Find, parents: Record<string, string>) {
  for (const [name, parent] of Object.entries(parents))
    t.is(find(name).parentSpanId, find(parent).spanId, `the parent of ${name}`);
}

for (const stream of [false, true]) {
  test(`the spans of a request form one tree over both processes, ${stream ? 'streamed' : 'whole'}`, async (t) => {
    const { line, all, find } = await spansOf({ stream });
    hasParents(t, find, {
      ...{ admission: route, 'send one-chat': route, queue: 'send one-chat', 'process one-chat': 'send one-chat' },
      ...{ 'chat one-chat': 'process one-chat', stream: 'chat one-chat', settle: 'process one-chat' },
    });
    t.is(all.length, 8);
    t.is(find(route).parentSpanId, '', 'it begins the trace');
    const kinds: Record<string, number> = {
      [route]: server,
      'send one-chat': producer,
      'process one-chat': consumer,
      'chat one-chat': client,
    };
    for (const { name, kind } of all) t.is(kind, kinds[name] ?? internal, name);
    for (const { name, isError, startedAt, endedAt } of all) t.true(!isError && startedAt <= endedAt, name);
    t.true(find('queue').startedAt >= find('admission').startedAt - 50_000_000n, 'the wait begins at admission');
    for (const name of [route, 'admission', 'send one-chat']) t.is(find(name).service, 'inference-ingress');
    for (const name of ['queue', 'chat one-chat', 'settle']) t.is(find(name).service, 'inference-worker');

    t.like(find(route).attributes, {
      ...{ 'http.request.method': 'POST', 'http.route': '/v1/chat/completions', 'http.response.status_code': 200 },
      ...{ 'svc.request_id': line.requestId, 'svc.key_id': line.keyId, 'svc.model': 'one-chat' },
      ...{ 'svc.backend': 'onprem-a', 'client.address': '127.0.0.1' },
      ...{ 'svc.prompt_tokens': line.promptTokens, 'svc.completion_tokens': line.completionTokens },
    });
    t.deepEqual(find(route).events, stream ? ['first text'] : []);
    t.like(find('admission').attributes, { 'svc.outcome': 'admitted', 'svc.limit': 'none' });
    t.like(find('process one-chat').attributes, {
      ...{ 'svc.run': 1, 'svc.lane': 'interactive', 'svc.outcome': 'completed' },
    });
    t.like(find('settle').attributes, { 'svc.settled': 'settled', 'svc.outcome': 'completed' });
    const call = find('chat one-chat');
    t.deepEqual(call.events, ['first token']);
    t.true(Number(call.attributes['gen_ai.response.time_to_first_chunk']) > 0);
    t.like(call.attributes, {
      ...{ 'svc.backend': 'onprem-a', 'svc.outcome': 'answered', 'svc.location': 'on-prem' },
      ...{ 'server.address': '127.0.0.1', 'server.port': stack.modelServers[0].port },
      ...{ 'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': 'openai', 'gen_ai.request.model': 'one-chat' },
      ...{ 'gen_ai.request.stream': true, 'gen_ai.usage.input_tokens': line.promptTokens },
      ...{ 'gen_ai.usage.output_tokens': line.completionTokens },
    });
  });
}

test('each call of a backend is a span with its outcome: one fails, the next answers', async (t) => {
  stack.modelServers[1].fail({ status: 500 }, 'two-chat');
  const { find } = await spansOf({ model: 'two-chat' }, 2);
  const [failed, answered] = [find('chat two-chat'), find('chat upstream-model')];
  for (const call of [failed, answered]) t.is(call.parentSpanId, find('process two-chat').spanId);
  t.true(failed.isError);
  t.like(failed.attributes, { 'svc.backend': 'onprem-b', 'svc.outcome': 'failed', 'error.type': 'failed' });
  t.false(answered.isError);
  t.like(answered.attributes, { 'svc.backend': 'cloud', 'svc.outcome': 'answered' });
  t.is(find(route).attributes['svc.backend'], 'cloud');
});

test('a refused request has only spans of the ingress; the refusal is no error of the server', async (t) => {
  const unknown = await ask({ model: 'unknown' });
  const [span, ...others] = await receiver.trace(String(unknown.line.traceId), route);
  t.deepEqual(others, []);
  t.like(span?.attributes, { 'http.response.status_code': 400, 'svc.error_code': 'VALIDATION_ERROR' });
  t.false(span?.isError);
  const expensive = await ask({ model: 'large-chat' });
  const spans = await receiver.trace(String(expensive.line.traceId), route);
  t.like(finder(spans)('admission').attributes, { 'svc.outcome': 'refused', 'error.type': 'rate_limit_exceeded' });
  t.is(spans.length, 2);
});

test('a stream that breaks off is an error in the spans of both processes', async (t) => {
  stack.modelServers[0].fail({ cutAfterChunks: 3 }, 'broken-chat');
  const { find } = await spansOf({ model: 'broken-chat', stream: true });
  for (const name of [route, 'process broken-chat']) {
    t.true(find(name).isError, name);
    t.is(find(name).attributes['error.type'], 'UPSTREAM_INTERRUPTED', name);
  }
  t.true(find('chat broken-chat').isError);
  t.like(find('settle').attributes, { 'svc.settled': 'settled', 'svc.outcome': 'failed' });
});

test('a client that leaves is an error of the first span', async (t) => {
  stack.modelServers[0].fail({ chunkMs: 50 }, 'slow-chat');
  const leaving = new AbortController();
  const url = stack.ingresses[0]?.url ?? '';
  const answer = await chat({
    url,
    key,
    question: 'repeat 500',
    model: 'slow-chat',
    stream: true,
    signal: leaving.signal,
  });
  await answer.body?.getReader().read();
  leaving.abort();
  const id = answer.headers.get('x-request-id');
  const line = await stack.ingresses[0]?.process.line(
    ({ requestId, status }) => requestId === id && status === 'aborted',
  );
  const spans = await receiver.trace(String(line?.traceId), /^(process |POST)/, 2);
  t.like(finder(spans)(route), { isError: true, attributes: { 'error.type': 'disconnected' } });
  t.like(finder(spans)('process slow-chat'), { isError: true });
  t.like(finder(spans)('settle').attributes, { 'svc.outcome': 'cancelled' });
});

test("a client's trace is continued, and reaches the backend", async (t) => {
  const [traceId, parent] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];
  const headers = { traceparent: `00-${traceId}-${parent}-01`, tracestate: 'vendor=a,other=b' };
  const { line, find } = await spansOf({ headers });
  t.is(line.traceId, traceId);
  t.like(find(route), { parentSpanId: parent, traceState: 'vendor=a,other=b' });
  t.is(find('settle').traceState, 'vendor=a,other=b');
  const called = stack.modelServers[0].calls().find(({ requestId }) => requestId === line.requestId);
  t.deepEqual(called?.trace, {
    traceparent: `00-${traceId}-${find('chat one-chat').spanId}-01`,
    tracestate: 'vendor=a,other=b',
  });
});

test('a client that does not sample has no spans, and its trace reaches the backend without the flag', async (t) => {
  const traceId = '1af7651916cd43dd8448eb211c80319c';
  const { line } = await ask({ headers: { traceparent: `00-${traceId}-b7ad6b7169203331-00` } });
  t.is(line.traceId, traceId);
  const called = stack.modelServers[0].calls().find(({ requestId }) => requestId === line.requestId);
  t.regex(called?.trace?.traceparent ?? '', new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
  await spansOf(); // a later request, whose spans have arrived
  t.deepEqual(
    receiver.spans.filter((span) => span.traceId === traceId),
    [],
  );
});

test('a trace that is invalid or too long is ignored', async (t) => {
  const id = '2af7651916cd43dd8448eb211c80319c';
  const invalid = [
    ...[
      '',
      'x',
      `00-${id}-b7ad6b7169203331`,
      `ff-${id}-b7ad6b7169203331-01`,
      `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
    ],
    ...[
      `00-${id}-${'0'.repeat(16)}-01`,
      `00-${id.toUpperCase()}-b7ad6b7169203331-01`,
      `00-${id}-b7ad6b7169203331-01-more`,
    ],
    ...[`00-${id}-b7ad6b7169203331-01, 00-${id}-b7ad6b7169203331-01`, `${'9'.repeat(4_000)}`],
  ];
  for (const traceparent of invalid) {
    const { line, answer } = await ask({ headers: { traceparent } });
    t.is(answer.status, 200, traceparent);
    t.regex(String(line.traceId), /^[0-9a-f]{32}$/);
    t.not(line.traceId, id, traceparent);
  }
  const long = `vendor=${'v'.repeat(200)},${Array.from({ length: 200 }, (_, index) => `key${index}=value`).join()}`;
  const headers = { traceparent: `00-3af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`, tracestate: long };
  const { find } = await spansOf({ headers });
  for (const name of [route, 'settle']) t.true(find(name).traceState.length <= 512, name);
});

test('a line of a batch has a trace of its own, with its batch', async (t) => {
  const batches = await openBatchClient(stack, 'with-batches');
  const { id } = await batches.create(linesOf(3, { model: 'one-chat' }));
  await batches.ended(id);
  const isLine = ({ attributes }: ReceivedSpan) => attributes['svc.batch'] === id;
  const deadline = Date.now() + 30_000;
  while (receiver.spans.filter(isLine).length < 3 && Date.now() < deadline) await spansOf();
  const lines = receiver.spans.filter(isLine);
  t.is(new Set(lines.map(({ traceId }) => traceId)).size, 3);
  for (const { traceId, parentSpanId, attributes } of lines) {
    t.is(parentSpanId, '');
    t.like(attributes, { 'svc.lane': 'batch', 'svc.outcome': 'completed' });
    const spans = await receiver.trace(traceId, 'settle');
    hasParents(t, finder(spans), {
      queue: 'process one-chat',
      'chat one-chat': 'process one-chat',
      settle: 'process one-chat',
    });
  }
});

test('spans of other routes have the path of the route, and none of what the client wrote', async (t) => {
  const url = stack.ingresses[0]?.url ?? '';
  const ids = [`${url}/no/such/${key}?key=${key}`, `${url}/v1/models/${key}`].map(async (address) => {
    const answer = await fetch(address, { headers: { authorization: `Bearer ${key}` } });
    await answer.text();
    const id = answer.headers.get('x-request-id');
    return stack.ingresses[0]?.process.line(
      ({ requestId, durationMs }) => requestId === id && durationMs !== undefined,
    );
  });
  const [missing, model] = await Promise.all(ids);
  t.is((await receiver.trace(String(missing?.traceId), 'GET')).length, 1);
  t.is((await receiver.trace(String(model?.traceId), 'GET /v1/models/*model')).length, 1);
});

test('no export has a prompt, a key, or a secret of a backend or of the receiver; the receiver gets its header', async (t) => {
  await spansOf({ stream: true });
  await spansOf();
  const refused = await ask({ key: `${key}x` });
  await receiver.trace(String(refused.line.traceId), route);
  const sent = receiver.bodies.map((body) => body.toString('latin1')).join('');
  t.true(sent.includes('deployment.environment.name'));
  for (const secret of [key, key.slice(0, 10), secretWord, receiverToken, apiKeyOfBackend, 'Bearer'])
    t.false(sent.includes(secret), secret);
  for (const headers of receiver.headers) t.is(headers['x-receiver-token'], receiverToken);
  const logs = JSON.stringify(stack.started().map(({ logs }) => logs));
  t.false(logs.includes(receiverToken));
});
