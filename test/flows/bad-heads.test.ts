import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import type { Stack } from '../stack/stack.ts';
import { exchange } from '../support/raw-http.ts';
import {
  assertRefused,
  head,
  headTooLarge,
  noAuth,
  notFound,
  refuses,
  stillServes,
  upgradeRequired,
  validation,
  wrongMethod,
} from '../support/refusal.ts';
import { openSharedStack } from '../support/shared-stack.ts';

const shared = openSharedStack(test, { isAtBaseUrl: true });
let stack: Stack;
let port: number;
let key: string;

test.before(async () => {
  stack = await shared.started();
  port = Number(new URL(stack.ingresses[0]?.url ?? '').port);
  key = await stack.mintKey('heads');
});

const nowhere = 'GET /v1/nowhere HTTP/1.1';
const chatHead = (...headers: string[]) =>
  head(
    'POST /v1/chat/completions HTTP/1.1',
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    ...headers,
  );

/** The beginning of a TLS handshake, as a browser sends it to this port for an `https://` URL. */
const clientHello = Buffer.concat([Buffer.from('1603010200010001fc0303', 'hex'), randomBytes(500)]);

test('bytes that are not HTTP get 400', async (t) => {
  await refuses(t, port, [
    ['a TLS hello', clientHello, validation],
    ['random bytes', Buffer.concat([Buffer.of(0x80), randomBytes(1_000)]), validation],
    ['a line of text', 'hello\r\n\r\n', validation],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', validation],
    ['HTTP/9.9', 'GET / HTTP/9.9\r\nHost: x\r\n\r\n', validation],
    ['a path with a space', head('GET /a b HTTP/1.1'), validation],
    ['a method in lower case', head('get / HTTP/1.1'), { status: 405, code: 'METHOD_NOT_ALLOWED' }],
    ['an SSH greeting', 'SSH-2.0-OpenSSH_9.6\r\n', validation],
  ]);
  await stillServes(t, stack.ingresses[0], key);
});

test('a malformed header gets 400', async (t) => {
  await refuses(t, port, [
    ['a folded line', `${nowhere}\r\nHost: x\r\nX-Long: a\r\n b\r\n\r\n`, validation],
    ['a space before the colon', head(nowhere, 'X-Space : a'), validation],
    ['no colon', head(nowhere, 'nothing'), validation],
    ['no name', head(nowhere, ': a'), validation],
    ['a NUL', head(nowhere, 'X-Nul: a\0b'), validation],
    ['a bare line feed in a value', head(nowhere, 'X-Feed: a\rb'), validation],
    ['a length that is not a number', chatHead('Content-Length: ten'), validation],
    ['a negative length', chatHead('Content-Length: -1'), validation],
    ['two lengths', `${chatHead('Content-Length: 2', 'Content-Length: 3')}{}`, validation],
    [
      'a length and chunked encoding',
      `${chatHead('Content-Length: 2', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
      validation,
    ],
    ['chunked encoding that is not last', `${chatHead('Transfer-Encoding: chunked, gzip')}0\r\n\r\n`, validation],
    ['a chunk without a size', `${chatHead('Transfer-Encoding: chunked')}zz\r\n{}\r\n0\r\n\r\n`, validation],
    ['a chunk longer than its size', `${chatHead('Transfer-Encoding: chunked')}1\r\n{}\r\n0\r\n\r\n`, validation],
    ['no host', `${nowhere}\r\n\r\n`, validation],
    ['two hosts', head(nowhere, 'Host: a', 'Host: b'), validation],
    ['a client id that is too long', head(nowhere, `X-Client-Request-Id: ${'x'.repeat(513)}`), validation],
    ['a client id with a space', head(nowhere, 'X-Client-Request-Id: a b'), validation],
    ['a client id that is not ASCII', Buffer.from(head(nowhere, 'X-Client-Request-Id: é')), validation],
    ['two client ids', head(nowhere, 'X-Client-Request-Id: a', 'X-Client-Request-Id: b'), validation],
  ]);
  await stillServes(t, stack.ingresses[0], key);
});

test('a head over 16 KiB gets 431, which the client receives even while it is still sending', async (t) => {
  const many = Array.from({ length: 1_500 }, (_, index) => `X-${index}: a`);
  await refuses(t, port, [
    ['one long header', head(nowhere, `X-Long: ${'x'.repeat(16_384)}`), headTooLarge],
    ['many short headers', head(nowhere, ...many), headTooLarge],
    ['a long path', head(`GET /${'x'.repeat(20_000)} HTTP/1.1`), headTooLarge],
    ['a long key', head(nowhere, `Authorization: Bearer ${'x'.repeat(100_000)}`), headTooLarge],
  ]);
  const sending = await exchange({
    port,
    readsLast: true,
    async send(socket) {
      socket.write(`${nowhere}\r\nHost: x\r\nX-Long: `);
      for (let index = 0; index < 40; index++) {
        await new Promise<void>((resolve, reject) =>
          socket.write('x'.repeat(10_000), (error) => (error ? reject(error) : resolve())),
        );
        await sleep(5);
      }
    },
  });
  assertRefused(t, sending, { ...headTooLarge, title: 'sent while the client is still sending' });
  await stillServes(t, stack.ingresses[0], key);
});

test('an unusual but valid request is answered normally', async (t) => {
  const hundreds = Array.from({ length: 500 }, (_, index) => `X-${index}: a`);
  const [, echoed] = await refuses(t, port, [
    ['many headers', head(nowhere, ...hundreds), notFound],
    ['a client id', head(nowhere, `X-Client-Request-Id: ${'~'.repeat(512)}`), notFound],
    ['HTTP/1.0 without a host', 'GET /v1/nowhere HTTP/1.0\r\n\r\n', notFound],
    ['no version', 'GET /v1/nowhere\r\n\r\n', notFound],
    ['an unknown expectation', head(nowhere, 'Expect: the-best'), notFound],
    ['an offer to switch protocols', head(nowhere, 'Connection: Upgrade', 'Upgrade: websocket'), notFound],
    ['a GET with a body', `${head(nowhere, 'Content-Length: 3')}abc`, notFound],
    ['an absolute URL', head('GET http://x/v1/models HTTP/1.1'), noAuth],
    ['leading empty lines', `\r\n\r\n${head(nowhere)}`, notFound],
  ]);
  t.is(echoed?.headers['x-client-request-id'], '~'.repeat(512));
  t.not(echoed?.headers['x-request-id'], '~'.repeat(512));
  await stillServes(t, stack.ingresses[0], key);
});

test('a WebSocket handshake for a known path gets 426 before its credential is read, and any other upgrade is ignored', async (t) => {
  const webSocket = ['Connection: Upgrade', 'Upgrade: websocket'];
  const codexKeeps = ['Connection: keep-alive, upgrade', 'Upgrade: h2c, WebSocket', 'Authorization: Bearer none'];
  const answers = await refuses(t, port, [
    ['a path without GET', head('GET /v1/responses HTTP/1.1', ...webSocket), upgradeRequired],
    ['a path with GET', head('GET /v1/models HTTP/1.1', ...codexKeeps), upgradeRequired],
  ]);
  for (const { headers, closes } of answers) {
    t.like(headers, { upgrade: 'HTTP/1.1', connection: 'close, Upgrade', 'x-should-retry': 'false' });
    t.false(closes);
  }
  await refuses(t, port, [
    ['an unknown path', head(nowhere, ...webSocket), notFound],
    ['HTTP/1.0', head('GET /v1/responses HTTP/1.0', ...webSocket), wrongMethod],
    ['another protocol', head('GET /v1/responses HTTP/1.1', 'Connection: Upgrade', 'Upgrade: h2c'), wrongMethod],
    ['an upgrade of another hop', head('GET /v1/responses HTTP/1.1', 'Upgrade: websocket'), wrongMethod],
    ['a POST', `${head('POST /v1/responses HTTP/1.1', ...webSocket, 'Content-Length: 0')}`, noAuth],
  ]);
  const nested = await exchange({ port, send: head('GET /openai/v1/responses HTTP/1.1', ...webSocket) });
  t.like(JSON.parse(nested.body), { error: { type: 'invalid_request_error', code: 'UPGRADE_REQUIRED' } });
});

test('an HTTP/1.0 client is not sent 100 Continue, which it would not understand', async (t) => {
  const body = '{"model":"small-chat","messages":[{"role":"user","content":"Hi"}]}';
  const old = chatHead(`Content-Length: ${body.length}`, 'Expect: 100-continue').replace('HTTP/1.1', 'HTTP/1.0');
  const answer = await exchange({ port, send: old + body });
  t.deepEqual(answer.interim, []);
  t.is(answer.status, 200);
});

test('a connection that breaks off at any point affects no other connection', async (t) => {
  const beginnings: (string | Buffer)[] = [
    '',
    'G',
    `${nowhere}\r\nHo`,
    chatHead('Content-Length: 500'),
    `${chatHead('Transfer-Encoding: chunked')}ff\r\n{`,
    clientHello,
    head('CONNECT example.com:443 HTTP/1.1'),
    head('TRACE / HTTP/1.1'),
    head(nowhere, 'Connection: Upgrade', 'Upgrade: websocket'),
    chatHead('Content-Length: 5000000'),
  ];
  for (const afterAnswer of [false, true]) {
    for (const beginning of beginnings) {
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => {});
      await once(socket, 'connect');
      await new Promise((resolve) => socket.write(beginning, resolve));
      if (afterAnswer) await Promise.race([once(socket, 'data'), sleep(200)]);
      socket.resetAndDestroy();
    }
  }
  await stillServes(t, stack.ingresses[0], key);
});
