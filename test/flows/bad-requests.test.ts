import { once } from 'node:events';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import test from 'ava';
import type { Stack } from '../stack/stack.ts';
import { exchange } from '../support/raw-http.ts';
import {
  assertDisclosesNothing,
  assertRefused,
  head,
  notFound,
  refuses,
  stillServes,
  tooLarge,
  unsupported,
  validation,
  wrongMethod,
} from '../support/refusal.ts';
import { openSharedStack } from '../support/shared-stack.ts';

const shared = openSharedStack(test, { isAtBaseUrl: true });
let stack: Stack;
let port: number;
let key: string;
let token: string;

test.before(async () => {
  stack = await shared.started();
  port = Number(new URL(stack.ingresses[0]?.url ?? '').port);
  key = await stack.mintKey('requester');
  token = await stack.identity.token('requester');
});

const authorized = () => `Authorization: Bearer ${key}`;
const json = 'Content-Type: application/json';
const chatLine = 'POST /v1/chat/completions HTTP/1.1';
const chatHead = (...headers: string[]) => head(chatLine, authorized(), ...headers);
const good = '{"model":"small-chat","messages":[{"role":"user","content":"Hi"}]}';
const lengthOf = (body: string | Buffer) => `Content-Length: ${Buffer.byteLength(body)}`;

/** A chat completion with this body. `headers` replace the usual content type. */
const chatWith = (body: string | Buffer, ...headers: string[]) =>
  Buffer.concat([Buffer.from(chatHead(lengthOf(body), ...(headers.length > 0 ? headers : [json]))), Buffer.from(body)]);

/** The same for a route that needs no credential. */
const guestWith = (body: string) => {
  const line = 'POST /v1/keys/guest HTTP/1.1';
  return Buffer.concat([Buffer.from(head(line, lengthOf(body), json)), Buffer.from(body)]);
};

test('a body that is not a JSON object in UTF-8 gets 400', async (t) => {
  const deep = `{"model":"m","messages":[{"role":"user","content":"Hi"}],"a":${'['.repeat(99_999)}${']'.repeat(99_999)}}`;
  const wide = `{"model":"m","messages":[{"role":"user","content":"Hi"}],"a":[${'{},'.repeat(25_000)}{}]}`;
  await refuses(t, port, [
    ['single quotes', chatWith("{'a':1}"), validation],
    ['a number', chatWith('5'), validation],
    ['no length at all', chatHead(json), validation],
    ['spaces', chatWith('   '), validation],
    ['broken UTF-8', chatWith(Buffer.from([0x7b, 0x22, 0xc3, 0x28, 0x22, 0x3a, 0x31, 0x7d])), validation],
    ['UTF-16', chatWith(Buffer.from(good, 'utf16le')), validation],
    ['a lone NUL', chatWith('\0'), validation],
    ['deeply nested', chatWith(deep), validation],
    ['of many objects', chatWith(wide), validation],
    ['a deeply nested device id', guestWith(`{"device_id":${'['.repeat(2_000)}${']'.repeat(2_000)}}`), validation],
  ]);
  const marked = await exchange({ port, send: chatWith(`\ufeff${good}`) });
  t.is(marked.status, 200, 'a byte order mark is accepted');
  assertDisclosesNothing(t, marked, 'a good response');
  await stillServes(t, stack.ingresses[0], key);
});

test('a body of another media type, charset or encoding gets 415', async (t) => {
  const bomb = gzipSync(Buffer.alloc(50_000_000, ' '));
  const answers = await refuses(t, port, [
    ['an empty type', chatWith(good, 'Content-Type:'), unsupported],
    ['almost JSON', chatWith(good, 'Content-Type: application/jsonx'), unsupported],
    ['garbage', chatWith(good, 'Content-Type: ;;;='), unsupported],
    ['an unknown charset', chatWith(good, `${json}; charset=klingon`), unsupported],
    ['a small body that decompresses to a large one', chatWith(bomb, json, 'Content-Encoding: gzip'), unsupported],
    ['brotli', chatWith('x', json, 'Content-Encoding: br'), unsupported],
    ['two encodings', chatWith(good, json, 'Content-Encoding: identity, gzip'), unsupported],
  ]);
  t.is(answers.at(-1)?.headers['accept-encoding'], 'identity');
  for (const type of ['application/json; charset=UTF-8', 'Application/JSON;charset="utf-8"']) {
    t.is((await exchange({ port, send: chatWith(good, `Content-Type: ${type}`) })).status, 200, type);
  }
  await stillServes(t, stack.ingresses[0], key);
});

test('a body over 16 MiB gets 413: from Content-Length before any byte is read, otherwise by count', async (t) => {
  const announced = [json, 'Content-Length: 16777217'];
  const answers = await refuses(t, port, [
    ['announced', chatHead(...announced), tooLarge],
    ['declared, with Expect: 100-continue', chatHead(...announced, 'Expect: 100-continue'), tooLarge],
    ['a declared length that overflows', chatHead(json, `Content-Length: ${'9'.repeat(18)}`), tooLarge],
  ]);
  for (const { interim } of answers) t.deepEqual(interim, []);
  const piece = `10000\r\n${' '.repeat(65_536)}\r\n`;
  await refuses(t, port, [['counted', chatHead(json, 'Transfer-Encoding: chunked') + piece.repeat(257), tooLarge]]);
  const settings = head(
    'POST /v1/keys/developer HTTP/1.1',
    `Authorization: Bearer ${token}`,
    json,
    'Content-Length: 16385',
  );
  await refuses(t, port, [
    ['with a key', settings, tooLarge],
    ['with a device', head('POST /v1/keys/guest HTTP/1.1', json, 'Content-Length: 4097'), tooLarge],
  ]);
  const largest = good.replace('Hi', 'x'.repeat(16_777_216 - good.length + 2));
  t.is(Buffer.byteLength(largest), 16_777_216);
  // After a large body that was refused, the next large one of its account waits long.
  const another = await stack.mintKey('large-requester');
  const largestHead = head(chatLine, `Authorization: Bearer ${another}`, lengthOf(largest), json);
  t.is((await exchange({ port, send: Buffer.from(largestHead + largest) })).status, 400);
  await stillServes(t, stack.ingresses[0], key);
});

test('a body shorter or longer than its declared length gets 400', async (t) => {
  const early = await exchange({
    port,
    async send(socket) {
      socket.end(chatHead(json, 'Content-Length: 500') + good);
    },
  });
  assertRefused(t, early, { ...validation, title: 'ends early' });
  const gone = connect(port, '127.0.0.1');
  await once(gone, 'connect');
  gone.write(chatHead(json, 'Content-Length: 500') + good);
  gone.resetAndDestroy();
  await stillServes(t, stack.ingresses[0], key);
});

test('an unknown path gets 404 and an unsupported method 405, which lists the methods of the path', async (t) => {
  const get = (target: string) => head(`GET ${target} HTTP/1.1`, authorized());
  const unknown = await refuses(t, port, [
    ['an unknown path', get('/v1/nowhere'), notFound],
    ['two slashes', get('//'), notFound],
    ['a path traversal', get('/v1/../../etc/passwd'), notFound],
    ['a path below a known one', get('/v1/chat/completions/x'), notFound],
    ['a broken escape', get('/%zz'), notFound],
    ['a model with a broken escape', get('/v1/models/%zz'), notFound],
    ['a model with an incomplete character', get('/v1/models/%c3'), notFound],
    ['a model named like a prototype', get('/v1/models/__proto__'), notFound],
    ['a target that is not a path', get('http://[::1'), validation],
    ['a missing /v1', get('/models'), notFound],
    ['a missing /v1, by another method', get('/chat/completions'), notFound],
    ['a trailing slash', get('/v1/models/'), notFound],
    ['a route of the OpenAI API', get('/v1/images/generations'), notFound],
    ['a key in a path', get(`/v1/keys/${key}`), notFound],
    ['a long path', get(`/v1/${'x'.repeat(10_000)}`), notFound],
  ]);
  const errors = unknown.map(({ body }) => JSON.parse(body).error);
  t.is(errors[0], 'There is nothing at /v1/nowhere.');
  t.is(errors[3], '/v1/chat/completions/x is not offered by this service.');
  t.deepEqual(errors.slice(-6), [
    'There is nothing at /models. Did you mean GET /v1/models?',
    'There is nothing at /chat/completions. Did you mean POST /v1/chat/completions?',
    'There is nothing at /v1/models/. Did you mean GET /v1/models?',
    '/v1/images/generations is not offered by this service.',
    'There is nothing at /v1/keys/svc_….',
    `There is nothing at /v1/${'x'.repeat(40)}….`,
  ]);
  const answers = await refuses(t, port, [
    ['GET instead of POST', get('/v1/chat/completions'), wrongMethod],
    ['DELETE', head('DELETE /v1/chat/completions HTTP/1.1', authorized()), wrongMethod],
    ['TRACE', head('TRACE /v1/chat/completions HTTP/1.1'), wrongMethod],
    ['an unknown method', head('FOO /v1/chat/completions HTTP/1.1'), wrongMethod],
    ['CONNECT', head('CONNECT example.com:443 HTTP/1.1'), wrongMethod],
  ]);
  for (const { headers } of answers) t.regex(headers.allow ?? '', /POST.*OPTIONS/);

  const options = await exchange({ port, send: head('OPTIONS /v1/chat/completions HTTP/1.1') });
  t.is(options.status, 204);
  t.is(options.headers.allow, 'POST, OPTIONS');
  for (const [target, status] of [
    ['/v1/models', 200],
    ['/v1/nowhere', 404],
    ['/v1/chat/completions', 405],
  ] as const) {
    const answer = await exchange({ port, method: 'HEAD', send: head(`HEAD ${target} HTTP/1.1`, authorized()) });
    t.is(answer.status, status, target);
    t.is(answer.body, '');
  }
  await stillServes(t, stack.ingresses[0], key);
});
