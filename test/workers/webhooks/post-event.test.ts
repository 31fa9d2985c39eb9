import { createServer } from 'node:net';
import test from 'ava';
import { createPostEvent, lookUpOnly } from '../../../workers/webhooks/post-event.ts';
import { privateAddresses, privateHosts } from '../../shared/webhooks/addresses.ts';
import { answerWith, startWebhookReceiver } from '../../support/webhook-receiver.ts';

const request = { headers: { 'webhook-id': 'evt_1' }, body: '{"a":1}' };
const rules = { hostsPrivate: ['127.0.0.1:*', 'receiver.internal:*'], resolve: async () => ['127.0.0.1'] };
const post = createPostEvent({ rules });

test('sends the body and the headers, and returns the status', async (t) => {
  await using receiver = await startWebhookReceiver();
  t.deepEqual(await post(`http://127.0.0.1:${receiver.port}/a?b=c`, request), { status: 204 });
  t.like(receiver.received[0], { path: '/a?b=c', body: '{"a":1}' });
  t.is(receiver.received[0]?.headers['webhook-id'], 'evt_1');
});

test('uses a new connection each time, so that each delivery is checked', async (t) => {
  await using receiver = await startWebhookReceiver();
  for (let count = 0; count < 3; count += 1) await post(`http://127.0.0.1:${receiver.port}/`, request);
  t.is(receiver.connections(), 3);
});

for (const status of [200, 299, 301, 302, 307, 308, 400, 404, 410, 429, 500, 503]) {
  test(`returns ${status}, and follows no redirect`, async (t) => {
    await using receiver = await startWebhookReceiver();
    await using target = await startWebhookReceiver();
    receiver.answer(answerWith(status, { location: `http://127.0.0.1:${target.port}/` }));
    t.deepEqual(await post(`http://127.0.0.1:${receiver.port}/`, request), { status });
    t.is(receiver.received.length, 1);
    t.is(target.connections(), 0);
  });
}

test('returns how long to wait', async (t) => {
  await using receiver = await startWebhookReceiver(answerWith(429, { 'retry-after': '120' }));
  const url = `http://127.0.0.1:${receiver.port}/`;
  t.deepEqual(await post(url, request), { status: 429, retryAfterMs: 120_000 });
  for (const text of ['-1', 'soon', '1.5', 'Wed, 21 Oct 2026 07:28:00 GMT', '']) {
    receiver.answer(answerWith(429, { 'retry-after': text }));
    t.deepEqual(await post(url, request), { status: 429 });
  }
});

test('reads no more than a few KiB of an endless body, and closes the connection', async (t) => {
  const closed = Promise.withResolvers<number>();
  await using receiver = await startWebhookReceiver((_request, response, raw) => {
    let written = 0;
    const piece = Buffer.alloc(1_024, 'x');
    response.writeHead(200);
    const write = () => {
      while (!raw.socket.destroyed && response.write(piece)) written += piece.length;
    };
    response.on('drain', write);
    raw.socket.on('close', () => closed.resolve(written));
    write();
  });
  t.deepEqual(await post(`http://127.0.0.1:${receiver.port}/`, request), { status: 200 });
  t.true((await closed.promise) < 16_777_216, 'it is no more than fits into buffers');
});

test('a receiver that does not answer is left after the time limit', async (t) => {
  const short = createPostEvent({ rules, timeoutMs: 1_000 }); // the request must arrive within it
  const closed = Promise.withResolvers<void>();
  await using silent = await startWebhookReceiver((_request, _response, raw) => {
    raw.socket.on('close', () => closed.resolve());
  });
  t.deepEqual(await short(`http://127.0.0.1:${silent.port}/`, request), { error: 'no answer within 1 s' });
  await closed.promise;
  const stuck = createPostEvent({ rules: { hostsPrivate: [], resolve: () => new Promise(() => {}) }, timeoutMs: 50 });
  t.deepEqual(await stuck('https://receiver.example.com/', request), { error: 'no answer within 0.05 s' });
});

test('a status counts although the body after it does not end within the time limit', async (t) => {
  const closed = Promise.withResolvers<void>();
  await using slow = await startWebhookReceiver((_request, response, raw) => {
    raw.socket.on('close', () => closed.resolve());
    response.writeHead(200).write('x');
  });
  const short = createPostEvent({ rules, timeoutMs: 1_000 });
  t.deepEqual(await short(`http://127.0.0.1:${slow.port}/`, request), { status: 200 });
  await closed.promise;
});

test('errors say what happened, and no address', async (t) => {
  await using early = await startWebhookReceiver((_request, _response, raw) => raw.socket.destroy());
  t.deepEqual(await post(`http://127.0.0.1:${early.port}/`, request), {
    error: 'the connection was closed without an answer',
  });
  const { port } = early;
  await early[Symbol.asyncDispose]();
  t.deepEqual(await post(`http://127.0.0.1:${port}/`, request), { error: 'the connection was refused' });

  await using huge = await startWebhookReceiver(answerWith(200, { 'x-large': 'x'.repeat(20_000) }));
  t.deepEqual(await post(`http://127.0.0.1:${huge.port}/`, request), { error: 'the answer is not valid HTTP' });
  await using plain = await startWebhookReceiver();
  t.deepEqual(await post(`https://127.0.0.1:${plain.port}/`, request), {
    error: 'the TLS connection could not be established',
  });
  const garbage = createServer((socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n')).listen(0, '127.0.0.1');
  await new Promise((resolve) => garbage.once('listening', resolve));
  const { port: other } = garbage.address() as { port: number };
  const answer = await post(`http://127.0.0.1:${other}/`, request);
  garbage.close();
  t.deepEqual(answer, { error: 'the answer is not valid HTTP' });
});

test('a name that has become private since it was checked is refused, and no connection is opened', async (t) => {
  await using receiver = await startWebhookReceiver();
  const rebound = ['93.184.216.34', '127.0.0.1'];
  const resolve = async () => [rebound.shift() ?? '127.0.0.1'];
  await resolve(); // when the endpoint was created
  const strict = createPostEvent({ rules: { hostsPrivate: [], resolve } });
  const url = `https://receiver.example.com:${receiver.port}/`;
  t.deepEqual(await strict(url, request), { error: 'the host cannot be found, or has an address that is not public' });
  for (const host of privateHosts) {
    const answer = await strict(`https://${host}:${receiver.port}/`, request);
    t.deepEqual(answer, { error: 'the host cannot be found, or has an address that is not public' }, host);
  }
  for (const address of privateAddresses) {
    const resolveTo = createPostEvent({ rules: { hostsPrivate: [], resolve: async () => ['1.1.1.1', address] } });
    t.deepEqual(
      await resolveTo(url, request),
      { error: 'the host cannot be found, or has an address that is not public' },
      address,
    );
  }
  t.deepEqual(await strict(`http://127.0.0.1:${receiver.port}/`, request), { error: 'expected an https URL' });
  t.is(receiver.connections(), 0);
});

test('a name is looked up once for each delivery, and the connection uses only that answer', async (t) => {
  await using receiver = await startWebhookReceiver();
  let lookedUp = 0;
  const resolve = async () => {
    lookedUp += 1;
    return ['127.0.0.1'];
  };
  const pinned = createPostEvent({ rules: { ...rules, resolve } });
  // No name server knows this host.
  t.deepEqual(await pinned(`http://receiver.internal:${receiver.port}/`, request), { status: 204 });
  t.is(lookedUp, 1);
  t.is(receiver.received[0]?.headers.host, `receiver.internal:${receiver.port}`);
});

test('the look-up of a connection returns the checked addresses, in both forms that Node asks for', (t) => {
  const lookUp = lookUpOnly(['192.0.2.1', '2001:db8::1']);
  lookUp('any.example', { all: true }, (error, found) => {
    t.is(error, null);
    t.deepEqual(found as unknown, [
      { address: '192.0.2.1', family: 4 },
      { address: '2001:db8::1', family: 6 },
    ]);
  });
  lookUp('any.example', {}, (...answer) => t.deepEqual(answer, [null, '192.0.2.1', 4]));
  lookUpOnly([])('any.example', {}, (error) => t.true(error instanceof Error));
});
