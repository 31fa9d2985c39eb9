import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { answerFor, type Fault, startModelServer } from '../../stack/model-server.ts';
import { askRaw as sendRaw } from '../model-server-calls.ts';

const messages = [{ role: 'user', content: 'Grüße' }];
const text = answerFor(messages);

type Server = Awaited<ReturnType<typeof startModelServer>>;

function control(server: Server, method: string, body?: unknown, path = ''): Promise<Response> {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  return fetch(new URL(`/control${path}`, server.url), { method, ...sent });
}

function ask(server: Server, stream: boolean, signal?: AbortSignal): Promise<Response> {
  const body = JSON.stringify({
    model: 'm',
    messages,
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
  });
  return fetch(`${server.url}/chat/completions`, { method: 'POST', body, ...(signal && { signal }) });
}

/** The raw bytes of a response, and how the connection ended. */
const askRaw = (server: Server, stream: boolean) =>
  sendRaw(server, { path: '/v1/chat/completions', body: { messages, stream } });

/** The contents of a stream's events, each parsed. Throws if one is not JSON. */
function contentsOf(stream: string): string[] {
  const events = stream.split('\n\n').filter((event) => event.startsWith('data: {'));
  const deltas = events.map((event) => JSON.parse(event.slice(6)).choices[0]?.delta.content);
  return deltas.filter((content) => typeof content === 'string' && content !== '');
}

async function withFault(fault: Fault): Promise<Server> {
  const server = await startModelServer({ name: 'onprem-a' });
  const reply = await control(server, 'PUT', fault);
  if (reply.status !== 200) throw new Error(await reply.text());
  return server;
}

test('refuses an unknown fault and an empty one', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  for (const wrong of [{ latencyMS: 5 }, {}, { times: 1 }, { status: 200 }, { hang: 1 }, 'text']) {
    t.is((await control(server, 'PUT', wrong)).status, 400, JSON.stringify(wrong));
  }
  t.is((await fetch(new URL('/control', server.url), { method: 'PUT', body: 'no JSON' })).status, 400);
  t.is((await control(server, 'POST', { hang: true })).status, 404);
  t.is((await ask(server, false)).status, 200);
});

test('status, retryAfterSeconds and errorMessage: an error, as many times as set', async (t) => {
  await using server = await withFault({ status: 429, retryAfterSeconds: 7, errorMessage: 'Slow down.', times: 2 });
  for (const stream of [false, true]) {
    const reply = await ask(server, stream);
    t.is(reply.status, 429);
    t.is(reply.headers.get('retry-after'), '7');
    t.like(await reply.json(), { error: { message: 'Slow down.', type: 'invalid_request_error' } });
  }
  t.is((await ask(server, false)).status, 200);

  await control(server, 'PUT', { status: 503 });
  t.like(await (await ask(server, false)).json(), { error: { type: 'server_error' } });
  await control(server, 'DELETE');
  t.is((await ask(server, false)).status, 200);
});

test('shows its calls over HTTP, and forgets them', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  await (await ask(server, false)).json();
  const calls = (await (await control(server, 'GET', undefined, '/calls')).json()) as unknown[];
  t.is(calls.length, 1);
  t.like(calls[0], { state: 'completed', body: { messages }, headers: { hasAuthorization: false } });
  await control(server, 'DELETE', undefined, '/calls');
  t.deepEqual(server.calls(), []);
});

test('hang: no byte until the client leaves', async (t) => {
  await using server = await withFault({ hang: true });
  const left = new AbortController();
  const reply = ask(server, true, left.signal);
  await server.waitForCall(({ state }) => state === 'running');
  t.is(await Promise.race([reply, sleep(100, 'nothing')]), 'nothing');
  left.abort();
  await t.throwsAsync(reply, { name: 'AbortError' });
  t.is((await server.waitForCall(({ state }) => state === 'aborted')).chunksSent, 0);
});

test('untilHealed: nothing until the fault is cleared or replaced, or the client leaves', async (t) => {
  for (const heal of [(server: Server) => server.heal(), (server: Server) => server.fail({ status: 500 })]) {
    await using server = await withFault({ untilHealed: true, times: 1 });
    const held = ask(server, false);
    await server.waitForCall(() => true);
    t.is((await ask(server, true)).status, 200, 'only as many calls as set');
    t.is(await Promise.race([held, sleep(20, 'held')]), 'held');
    heal(server);
    t.is((await held).status, 200);
  }
  await using server = await withFault({ untilHealed: true });
  const leaving = new AbortController();
  const left = ask(server, false, leaving.signal);
  await server.waitForCall(() => true);
  leaving.abort();
  await t.throwsAsync(left);
  t.is((await server.waitForCall(({ state }) => state === 'aborted')).chunksSent, 0);
});

test('latencyMs: nothing before it has passed', async (t) => {
  await using server = await withFault({ latencyMs: 80 });
  const startedAt = performance.now();
  t.is((await ask(server, false)).status, 200);
  t.true(performance.now() - startedAt >= 75);
});

test('resetBeforeHeaders: only a reset', async (t) => {
  await using server = await withFault({ resetBeforeHeaders: true });
  t.like(await askRaw(server, false), { error: 'ECONNRESET', bytes: Buffer.alloc(0) });
  t.is(server.calls()[0]?.state, 'failed');
});

test('garbage: bytes that are not HTTP, or a body that is not JSON', async (t) => {
  await using server = await withFault({ garbage: 'http' });
  const { bytes } = await askRaw(server, false);
  t.true(bytes.length > 0);
  t.false(bytes.includes('HTTP/1.1'));
  await control(server, 'PUT', { garbage: 'json' });
  const reply = await ask(server, false);
  t.is(reply.status, 200);
  await t.throwsAsync(reply.json(), { instanceOf: SyntaxError });
});

test('garbage: a web page, or an error, with status 200', async (t) => {
  await using server = await withFault({ garbage: 'html' });
  const page = await ask(server, true);
  t.deepEqual([page.status, page.headers.get('content-type')], [200, 'text/html']);
  await control(server, 'PUT', { garbage: 'error' });
  const reply = await ask(server, true);
  t.is(reply.status, 200);
  t.like(await reply.json(), { error: { type: 'server_error' } });
});

test('closeBeforeHeaders and endlessHeaders: no byte and a regular end, or never the end of the header', async (t) => {
  await using server = await withFault({ closeBeforeHeaders: true });
  t.like(await askRaw(server, true), { error: undefined, bytes: Buffer.alloc(0) });
  await control(server, 'PUT', { endlessHeaders: true });
  const reply = ask(server, true);
  await t.throwsAsync(reply, { message: 'fetch failed' }, 'no client accepts a header of that size');
  await server.waitForCall(({ state }) => state === 'aborted');
});

test('location: the redirect target of a status', async (t) => {
  await using server = await withFault({ status: 307, location: 'http://127.0.0.1:9/v1' });
  t.regex(
    (await askRaw(server, true)).bytes.toString(),
    /^HTTP\/1\.1 307 .*\r\nlocation: http:\/\/127\.0\.0\.1:9\/v1\r\n/is,
  );
});

test('lengthFactor: the complete body with a wrong length', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  for (const [stream, lengthFactor] of [
    [true, 0.5],
    [false, 2],
  ] as const) {
    await control(server, 'PUT', { lengthFactor });
    const text = (await askRaw(server, stream)).bytes.toString();
    const [head = '', body = ''] = text.split('\r\n\r\n', 2);
    const announced = Number(/^content-length: (\d+)$/m.exec(head)?.[1]);
    t.is(announced, Math.round(Buffer.byteLength(body) * lengthFactor));
    t.true(stream ? body.endsWith('data: [DONE]\n\n') : JSON.parse(body).choices.length === 1);
  }
});

const derailments: [into: NonNullable<Fault['derails']>['into'], endsWith: RegExp][] = [
  ['a closed connection', /"content":" said"}.*}\n\n\r\n$/s],
  ['an error event', /\ndata: {"error":{.*}}\n\ndata: \[DONE\]\n\n\r\n0\r\n\r\n$/s],
  ['half an event', /"content":"and\n\ndata: \[DONE\]\n\n\r\n0\r\n\r\n$/],
  ['invalid UTF-8', /\ufffd.*"},"finish_reason":null}\]}\n\ndata: \[DONE\]\n\n\r\n0\r\n\r\n$/s],
  ['a broken chunk', /\r\nthis is no length of a chunk\r\n$/],
];

for (const [into, endsWith] of derailments) {
  test(`derails: a number of tokens, then ${into}`, async (t) => {
    await using server = await startModelServer({ name: 'onprem-a', splitBytes: false });
    server.fail({ derails: { afterChunks: 2, into } });
    const { bytes, error } = await askRaw(server, true);
    t.is(error, undefined);
    t.regex(bytes.toString(), /"content":"You"[^}]*}[^}]*}\]}\n\ndata: .*"content":" said"/);
    t.notRegex(bytes.toString(), /"content":": /);
    t.regex(bytes.toString(), endsWith);
    t.is(server.calls()[0]?.state, 'failed');
  });
}

for (const into of ['an endless line', 'endless comments', 'endless roles'] as const) {
  test(`derails: a number of tokens, then ${into}, until the client disconnects`, async (t) => {
    await using server = await withFault({ derails: { afterChunks: 2, into } });
    const reply = await ask(server, true);
    let received = '';
    for await (const part of reply.body ?? []) {
      received += Buffer.from(part).toString('latin1');
      if (received.split(into === 'an endless line' ? 'and so on ' : '\n\n').length > 20) break;
    }
    t.is(received.match(/"content":"[^"]+"/g)?.length, 2);
    await server.waitForCall(({ state }) => state === 'aborted');
  });
}

test('cutAfterChunks: a number of tokens and a reset; half of a complete reply', async (t) => {
  await using server = await withFault({ cutAfterChunks: 2 });
  const stream = await askRaw(server, true);
  t.is(stream.error, 'ECONNRESET');
  t.is(stream.bytes.toString().match(/"content":"[^"]/g)?.length, 2);
  const whole = await askRaw(server, false);
  t.is(whole.error, 'ECONNRESET');
  t.regex(whole.bytes.toString(), /^HTTP\/1\.1 200 OK/);
  t.deepEqual(
    server.calls().map(({ state, chunksSent }) => [state, chunksSent]),
    [
      ['failed', 2],
      ['failed', 0],
    ],
  );
});

test('endAfterChunks: a number of tokens and a regular end that hides the cut; half of a complete reply', async (t) => {
  await using server = await withFault({ endAfterChunks: 2 });
  const stream = await (await ask(server, true)).text();
  t.is(contentsOf(stream).length, 2);
  t.notRegex(stream, /\[DONE\]|"finish_reason":"/);
  await t.throwsAsync((await ask(server, false)).text(), { message: 'terminated' });

  await control(server, 'PUT', { endAfterChunks: 0 });
  const empty = await (await ask(server, true)).text();
  t.deepEqual(contentsOf(empty), []);
  await control(server, 'PUT', { endAfterChunks: 1_000_000 });
  const almost = await (await ask(server, true)).text();
  t.is(contentsOf(almost).join(''), text);
  t.notRegex(almost, /\[DONE\]|"finish_reason":"/);
});

test('stallAfterChunks: a number of tokens and then silence', async (t) => {
  await using server = await withFault({ stallAfterChunks: 2 });
  const left = new AbortController();
  const reply = (await ask(server, true, left.signal)).text();
  await server.waitForCall(({ chunksSent }) => chunksSent === 2);
  t.is(await Promise.race([reply, sleep(100, 'nothing')]), 'nothing');
  left.abort();
  await t.throwsAsync(reply);
  t.is((await server.waitForCall(({ state }) => state === 'aborted')).chunksSent, 2);
});

test('chunkMs: a pause before each token except the first', async (t) => {
  await using server = await withFault({ chunkMs: 5 });
  const startedAt = performance.now();
  const stream = await (await ask(server, true)).text();
  const contents = contentsOf(stream);
  t.is(contents.join(''), text);
  t.true(performance.now() - startedAt >= 5 * (contents.length - 1) - 5);
});

test('badEvents: events with truncated JSON, in an otherwise complete stream', async (t) => {
  await using server = await withFault({ badEvents: true });
  const stream = await (await ask(server, true)).text();
  t.throws(() => contentsOf(stream), { instanceOf: SyntaxError });
  t.regex(stream, /data: \[DONE\]\n\n$/);
});

test('invalidUtf8: a byte that is not UTF-8, complete and streamed', async (t) => {
  await using server = await withFault({ invalidUtf8: true });
  for (const stream of [false, true]) {
    const bytes = await (await ask(server, stream)).bytes();
    t.throws(() => new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    t.notThrows(() => contentsOf(new TextDecoder().decode(bytes)));
  }
});

test('noUsage and noDone: everything except these', async (t) => {
  await using server = await withFault({ noUsage: true });
  t.notRegex(await (await ask(server, true)).text(), /"usage"/);
  t.notRegex(await (await ask(server, false)).text(), /"usage"/);
  await control(server, 'PUT', { noDone: true });
  const stream = await (await ask(server, true)).text();
  t.notRegex(stream, /\[DONE\]/);
  t.regex(stream, /"finish_reason":"stop"/);
  t.regex(stream, /"usage"/);
});

test('slowHeadersMs: a header in pieces, and a body that ends with its connection', async (t) => {
  await using server = await withFault({ slowHeadersMs: 100 });
  const { bytes, parts } = await askRaw(server, true);
  t.true(parts > 5);
  t.regex(bytes.toString(), /^HTTP\/1\.1 200 OK\r\ncontent-type: text\/event-stream/);
  t.is(contentsOf(await (await ask(server, true)).text()).join(''), text);
  const startedAt = performance.now();
  t.like(await (await ask(server, false)).json(), { choices: [{ message: { content: text } }] });
  t.true(performance.now() - startedAt >= 90);
  t.true(server.calls().every(({ state }) => state === 'completed'));
});

test('endless: tokens until the client disconnects, complete and streamed', async (t) => {
  await using server = await withFault({ endless: true });
  for (const stream of [false, true]) {
    const reply = await ask(server, stream);
    let received = 0;
    for await (const part of reply.body ?? []) {
      received += part.length;
      if (received > 1_000_000) break;
    }
    t.true(received > 1_000_000);
    await server.waitForCall((call) => call.stream === stream && call.state === 'aborted');
  }
});
