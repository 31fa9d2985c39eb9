import { getEventListeners, once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { createBodyBudget } from '../../../ingress/listener/body-budget.ts';
import type { Stage } from '../../../ingress/request-state.ts';
import { ApiError } from '../../../shared/errors.ts';
import { bodyBytesMax, head, later, startBodyReader, trickle, write } from '../../support/body-reader.ts';
import { exchange } from '../../support/raw-http.ts';

test('reads a body in any chunks, and returns its value and its text', async (t) => {
  const { port } = await startBodyReader(t);
  const body = '{"a":["é","👩‍👩‍👧‍👦"]}';
  const bytes = Buffer.from(body);
  const { status, body: echoed } = await exchange({
    port,
    async send(socket) {
      socket.setNoDelay(true);
      socket.write(head(`Content-Length: ${bytes.length}`));
      for (const byte of bytes) {
        socket.write(Buffer.of(byte));
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
  });
  t.is(status, 200);
  t.is(echoed, body);
});

test('once a body has arrived, nothing waits for others to need its room', async (t) => {
  const bodies = createBodyBudget({ bytesMax: 1_048_576 });
  const signals: AbortSignal[] = [];
  const budget: typeof bodies = {
    ...bodies,
    enter(account, source) {
      const share = bodies.enter(account, source);
      if (share !== undefined) signals.push(share.signal);
      return share;
    },
  };
  const { port } = await startBodyReader(t, { budget });
  const waiting = () => signals.map((signal) => getEventListeners(signal, 'abort').length);
  const { status } = await exchange({
    port,
    async send(socket) {
      await write(socket, `${head('Content-Length: 2')}{`);
      while (waiting()[0] !== 1) await sleep(5);
      await write(socket, '}');
    },
  });
  t.is(status, 200);
  t.deepEqual(waiting(), [0]);
});

for (const [when, before] of [
  ['as it arrives', undefined],
  ['once it has arrived', later],
] as const) {
  test(`${when}, a body of exactly the limit is read, one byte more is 413, announced or not`, async (t) => {
    const { port, bytesHeld } = await startBodyReader(t, before && { before });
    const bodyOf = (length: number) => JSON.stringify({ a: 'x'.repeat(length - 8) });
    for (const [length, status] of [
      [bodyBytesMax, 200],
      [bodyBytesMax + 1, 413],
    ] as const) {
      const body = bodyOf(length);
      t.is(body.length, length);
      const announced = await exchange({ port, send: head(`Content-Length: ${length}`) + body });
      t.is(announced.status, status);
      const chunked = `${length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
      const counted = await exchange({ port, send: head('Transfer-Encoding: chunked') + chunked });
      t.is(counted.status, status);
    }
    t.is(bytesHeld(), 0);
  });
}

test('a body that arrives slowly is 408 when its time is over, and the client can read the response while it still sends', async (t) => {
  const { port } = await startBodyReader(t, { bodyMs: 300 });
  for (const headers of [
    ['Content-Length: 9000'],
    ['Transfer-Encoding: chunked'],
    ['Content-Length: 9000', 'Connection: close'],
  ]) {
    const answer = await exchange({
      port,
      async send(socket) {
        socket.write(head(...headers));
        await trickle(socket, headers[0]?.startsWith('T') ? '1\r\n \r\n' : ' ');
      },
    });
    t.is(answer.status, 408, headers.join());
    t.deepEqual(JSON.parse(answer.body), { error: 'The body did not arrive in time.', code: 'REQUEST_TIMEOUT' });
  }
});

test('a client that continues to send a body that is too large can read its 413', async (t) => {
  const { port } = await startBodyReader(t);
  const large = ' '.repeat(65_536);
  const piece = `${large.length.toString(16)}\r\n${large}\r\n`;
  for (const [headers, bytes] of [
    [['Content-Length: 900000000'], large],
    [['Transfer-Encoding: chunked'], piece],
    [['Content-Length: 900000000', 'Connection: close'], large],
    [['Transfer-Encoding: chunked', 'Connection: close'], piece],
  ] as const) {
    for (let round = 0; round < 10; round++) {
      const answer = await exchange({
        port,
        async send(socket) {
          socket.write(head(...headers));
          for (let index = 0; index < 50; index++) socket.write(bytes);
          await trickle(socket, bytes);
        },
      });
      t.is(answer.status, 413, headers.join());
      t.like(JSON.parse(answer.body), { code: 'PAYLOAD_TOO_LARGE' });
    }
  }
});

test('a client that reads only after it has sent everything gets its 413', async (t) => {
  const { port } = await startBodyReader(t);
  const length = 3_000_000;
  for (const connection of ['keep-alive', 'close']) {
    const answer = await exchange({
      port,
      readsLast: true,
      async send(socket) {
        socket.write(head(`Content-Length: ${length}`, `Connection: ${connection}`));
        for (let sent = 0; sent < length; sent += 100_000) {
          await write(socket, ' '.repeat(100_000));
          await sleep(5);
        }
      },
    });
    t.is(answer.status, 413, connection);
  }
});

test('a client that disconnects before its body was read causes no internal error, after any part of it', async (t) => {
  for (const sent of ['{"a":', '{"a":1}']) {
    const failure = Promise.withResolvers<unknown>();
    const before: Stage = async (ctx, next) => {
      await once(ctx.res, 'close');
      await next().then(() => failure.resolve(undefined), failure.resolve);
    };
    const { port } = await startBodyReader(t, { before });
    const socket = connect(port, '127.0.0.1');
    await write(socket, head('Content-Length: 7') + sent);
    socket.resetAndDestroy();
    t.like(await failure.promise, { code: 'VALIDATION_ERROR' }, sent);
  }
});

test('a client that continues to send after its refusal is disconnected after a while', async (t) => {
  const { port } = await startBodyReader(t, { lingerMs: 500 });
  t.timeout(60_000);
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(head('Content-Length: 900000000'));
  let received = '';
  socket.setEncoding('latin1').on('data', (text) => {
    received += text;
  });
  await trickle(socket, ' '.repeat(4_096));
  t.regex(received, /^HTTP\/1\.1 413 .*PAYLOAD_TOO_LARGE"\}$/s);
});

test('a client that expects 100-continue gets it, or is refused before it has sent anything', async (t) => {
  const { port } = await startBodyReader(t);
  const asking = (length: number) => head(`Content-Length: ${length}`, 'Expect: 100-continue');
  const welcome = await exchange({
    port,
    async send(socket) {
      socket.write(asking(2));
      await new Promise((resolve) => socket.once('data', resolve));
      socket.write('{}');
    },
  });
  t.deepEqual(welcome.interim, [100]);
  t.is(welcome.status, 200);

  const refused = await exchange({ port, send: asking(bodyBytesMax + 1) });
  t.deepEqual(refused.interim, []);
  t.is(refused.status, 413);
  t.true(refused.closes, 'the body may still arrive');
});

test('a body that is still arriving at the end of the shutdown wait is 503', async (t) => {
  const { port, giveUp } = await startBodyReader(t);
  const answer = await exchange({
    port,
    async send(socket) {
      socket.write(`${head('Content-Length: 9000')}{`);
      await sleep(100);
      giveUp.abort(new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down. Retry.'));
    },
  });
  t.is(answer.status, 503);
  t.is(answer.headers['retry-after'], '1');
});

test('a head that arrives slowly is 408, too', async (t) => {
  const { port } = await startBodyReader(t);
  t.timeout(60_000);
  const answer = await exchange({
    port,
    withinMs: 30_000,
    async send(socket) {
      socket.write('POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ');
      await trickle(socket, 'x');
    },
  });
  t.is(answer.status, 408);
  t.deepEqual(JSON.parse(answer.body), { error: 'The request did not arrive in time.', code: 'REQUEST_TIMEOUT' });
  t.true(answer.closes);
});

test('a client that does not wait for 100-continue keeps the connection', async (t) => {
  const { port } = await startBodyReader(t, { before: later });
  const { status, closes, interim } = await exchange({
    port,
    send: `${head('Content-Length: 2', 'Expect: 100-continue')}{}`,
  });
  t.is(status, 200);
  t.deepEqual(interim, [100]);
  t.false(closes);
});
