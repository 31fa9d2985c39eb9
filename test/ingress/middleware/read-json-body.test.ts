import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import Koa from 'koa';
import { type BodyBudget, createBodyBudget, uncountedBodies } from '../../../ingress/body-budget.ts';
import { type Clock, systemClock } from '../../../ingress/issuer/clock.ts';
import { listen } from '../../../ingress/listener.ts';
import type { IngressMetrics } from '../../../ingress/metrics.ts';
import { answerBrokenRequest, answerErrors } from '../../../ingress/middleware/answer-errors.ts';
import { assignRequestId } from '../../../ingress/middleware/assign-request-id.ts';
import { readJsonBody } from '../../../ingress/middleware/read-json-body.ts';
import { createRefusedBodies, type RefusedBodies } from '../../../ingress/refused-bodies.ts';
import { type RequestState, type Stage, stateOf } from '../../../ingress/request-state.ts';
import { ApiError } from '../../../shared/errors.ts';
import { untilCollected } from '../../support/collect-garbage.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { exchange } from '../../support/raw-http.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { unboundedConnections } from '../../support/unbounded-connections.ts';

const bodyBytesMax = 10_000;

/** The listener as it is, with a route that reads a body and sends it back. */
async function start(
  t: ExecutionContext,
  {
    bodyMs = 60_000,
    before,
    budgetBytes = 1_048_576,
    clock = systemClock,
    handle = echo,
    refusedBodies = createRefusedBodies(),
    ...counted
  }: Options = {},
): Promise<{ port: number; giveUp: AbortController; refusals: () => number; bytesHeld: () => number }> {
  const giveUp = new AbortController();
  const budget = createBodyBudget({ bytesMax: budgetBytes, clock });
  let refusals = 0;
  const metrics = { bodyRefusals: { inc: () => void refusals++ } } as Pick<IngressMetrics, 'bodyRefusals'>;
  const { log } = recordedLog();
  const app = new Koa<RequestState>();
  app.use(assignRequestId);
  app.use(answerErrors({ log, docsUrl: '' }));
  if (before !== undefined) app.use(before);
  app.use(readJsonBody({ bodyBytesMax, bodyMs, giveUp: giveUp.signal, budget, refusedBodies, metrics, ...counted }));
  app.use(handle);
  app.on('error', () => {});
  const listener = await listen({
    connections: unboundedConnections,
    host: '127.0.0.1',
    port: 0,
    onRequest: app.callback(),
    onBrokenRequest: answerBrokenRequest({ log, docsUrl: '', securityHeaders: {} }),
  });
  t.teardown(() =>
    listener.close({
      graceMs: 0,
      giveUp: () => giveUp.abort(new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down. Retry.')),
    }),
  );
  return { port: listener.port, giveUp, refusals: () => refusals, bytesHeld: budget.bytesHeld };
}

type Options = {
  bodyMs?: number;
  before?: Stage;
  handle?: Stage;
  budgetBytes?: number;
  clock?: Clock;
  budget?: Pick<BodyBudget, 'enter'>;
  refusedBodies?: RefusedBodies;
};

const echo: Stage = async (ctx) => {
  ctx.body = stateOf(ctx, 'body').value;
};

const head = (...headers: string[]) =>
  ['POST / HTTP/1.1', 'Host: x', 'Content-Type: application/json', ...headers, '', ''].join('\r\n');

function write(socket: Socket, text: string): Promise<void> {
  return new Promise((resolve, reject) => socket.write(text, (error) => (error ? reject(error) : resolve())));
}

/** As in front of most routes: the body has arrived before it is read. */
const later: Stage = async (_ctx, next) => {
  await sleep(20);
  await next();
};

/** Goes on sending a little at a time until the connection ends. */
async function trickle(socket: Socket, bytes: string): Promise<void> {
  while (!socket.destroyed) {
    socket.write(bytes);
    await sleep(20);
  }
}

test('reads a whole body, however it is cut, and gives its value and its text', async (t) => {
  const { port } = await start(t);
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

for (const [when, before] of [
  ['as it comes', undefined],
  ['once it has arrived', later],
] as const) {
  test(`${when}, a body of exactly the limit is read, one byte more is 413, announced or not`, async (t) => {
    const { port, bytesHeld } = await start(t, before && { before });
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

test('a body that trickles in is 408 when its time is over, and the client can read that while it still sends', async (t) => {
  const { port } = await start(t, { bodyMs: 300 });
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

test('a client that goes on sending a body that is too large reads its 413 all the same', async (t) => {
  const { port } = await start(t);
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

test('a client that reads only when it has sent everything finds its 413', async (t) => {
  const { port } = await start(t);
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

test('a client that went away before its body was read is no fault of ours, whatever it had sent', async (t) => {
  for (const sent of ['{"a":', '{"a":1}']) {
    const failure = Promise.withResolvers<unknown>();
    const before: Stage = async (ctx, next) => {
      await once(ctx.res, 'close');
      await next().then(() => failure.resolve(undefined), failure.resolve);
    };
    const { port } = await start(t, { before });
    const socket = connect(port, '127.0.0.1');
    await write(socket, head('Content-Length: 7') + sent);
    socket.resetAndDestroy();
    t.like(await failure.promise, { code: 'VALIDATION_ERROR' }, sent);
  }
});

test('whoever goes on sending after its refusal is cut in the end', async (t) => {
  const { port } = await start(t);
  t.timeout(30_000);
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

test('who asks before sending is told to go on, or refused without having sent anything', async (t) => {
  const { port } = await start(t);
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
  t.true(refused.closes, 'nobody knows whether the body still comes');
});

test('a body that still comes when a shutdown waits no longer is 503', async (t) => {
  const { port, giveUp } = await start(t);
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

test('a head that trickles in is 408, too', async (t) => {
  const { port } = await start(t);
  t.timeout(40_000);
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

test('a body that has arrived and finds no room for all of it is read bit by bit', async (t) => {
  const release = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  const { port, bytesHeld } = await start(t, {
    before: later,
    budgetBytes: 30,
    handle: async (ctx) => {
      held.resolve();
      await release.promise;
      await echo(ctx, async () => {});
    },
  });
  const send = `${head('Content-Length: 24')}{"a":"1234567890123456"}`;
  const first = exchange({ port, send });
  await held.promise;
  const second = exchange({ port, send });
  await sleep(60);
  release.resolve();
  for (const { status, body } of await Promise.all([first, second])) {
    t.is(status, 200);
    t.is(body, '{"a":"1234567890123456"}');
  }
  t.is(bytesHeld(), 0);
});

test('who does not wait to be told to go on keeps the connection', async (t) => {
  const { port } = await start(t, { before: later });
  const { status, closes, interim } = await exchange({
    port,
    send: `${head('Content-Length: 2', 'Expect: 100-continue')}{}`,
  });
  t.is(status, 200);
  t.deepEqual(interim, [100]);
  t.false(closes);
});

test('without room for its first byte a body is 503 before it is read, and the room is there again when another leaves', async (t) => {
  const release = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  const { port, refusals, bytesHeld } = await start(t, {
    budgetBytes: 10,
    handle: async (ctx) => {
      held.resolve();
      await release.promise;
      ctx.body = {};
    },
  });
  const send = `${head('Content-Length: 16')}{"a":"12345678"}`;
  const first = exchange({ port, send });
  await held.promise;
  t.is(bytesHeld(), 16, 'a body whose request runs is held');
  const { status, headers, body } = await exchange({ port, send });
  t.is(status, 503);
  t.true(Number(headers['retry-after']) >= 1 && Number(headers['retry-after-ms']) >= 1_000);
  t.like(JSON.parse(body), { code: 'SERVICE_UNAVAILABLE' });
  t.is(refusals(), 1);
  release.resolve();
  t.is((await first).status, 200);
  t.is(bytesHeld(), 0);
  t.is((await exchange({ port, send })).status, 200);
});

test('a body gives its room back before its request ends, if a stage says that it is no longer held', async (t) => {
  const { port, bytesHeld } = await start(t, {
    budgetBytes: 10,
    handle: async (ctx) => {
      ctx.state.bodyShare?.leave();
      ctx.body = { held: bytesHeld() };
    },
  });
  t.is((await exchange({ port, send: `${head('Content-Length: 16')}{"a":"12345678"}` })).body, '{"held":0}');
});

test('a body that had to wait for room until its time was over is 503, and one that was slow itself is 408', async (t) => {
  const { port, bytesHeld } = await start(t, { budgetBytes: 100, bodyMs: 300 });
  const [slow, waiting] = await Promise.all([
    exchange({ port, send: `${head('Content-Length: 1000')}{"a":"${'1'.repeat(60)}` }),
    exchange({
      port,
      async send(socket) {
        while (bytesHeld() === 0) await sleep(5);
        socket.write(`${head('Content-Length: 1000')}{"a":"${'1'.repeat(60)}`);
      },
    }),
  ]);
  t.deepEqual([slow.status, waiting.status], [408, 503]);
  t.is(bytesHeld(), 0);
});

test('what counts as refused is a body of an account that is wrong, before it is queued', async (t) => {
  const counted: [account: string, bytes: number][] = [];
  const turns: string[] = [];
  const refusedBodies: RefusedBodies = {
    mustWait: () => true,
    turn: async (account) => void turns.push(account),
    add: (account, bytes) => void counted.push([account, bytes]),
  };
  const before: Stage = async (ctx, next) => {
    const account = ctx.get('x-account');
    if (account !== '') ctx.state.caller = { account } as NonNullable<RequestState['caller']>; // no stage here looks at more
    await next();
  };
  const handle: Stage = async (ctx) => {
    const { is } = stateOf(ctx, 'body').value as { is?: string }; // what this test sends
    if (is === 'queued') ctx.state.bodyShare?.leave();
    if (is === 'ours') throw new ApiError('SERVICE_UNAVAILABLE', 'Retry.');
    if (is !== 'right') throw new ApiError('VALIDATION_ERROR', 'It is wrong.');
    ctx.body = {};
  };
  const { port } = await start(t, { before, handle, refusedBodies });
  const send = async (body: string, ...headers: string[]) =>
    (await exchange({ port, send: head(`Content-Length: ${body.length}`, ...headers) + body })).status;
  t.is(await send('{"is":"wrong"}'), 400, 'without an account');
  for (const [body, status] of [
    ['{"is":"right"}', 200],
    ['{"is":"ours"}', 503],
    ['{"is":"queued"}', 400],
    ['{"is":"wrong"}', 400],
    ['{', 400],
  ] as const) {
    t.is(await send(body, 'X-Account: user:a'), status);
  }
  t.deepEqual(counted, [
    ['user:a', 14],
    ['user:a', 1],
  ]);
  t.deepEqual(
    turns,
    Array.from({ length: 5 }, () => 'user:a'),
  );
});

test('a body that had to wait for a moment only, and then trickles in, is 408', async (t) => {
  const { port, bytesHeld, refusals } = await start(t, { budgetBytes: 100, bodyMs: 1_000 });
  const started = `${head('Content-Length: 1000')}{"a":"${'1'.repeat(60)}`;
  const leaving = connect(port, '127.0.0.1');
  leaving.write(started);
  while (bytesHeld() === 0) await sleep(2);
  const answer = exchange({ port, send: started });
  while (bytesHeld() < 100) await sleep(2);
  leaving.destroy();
  t.is((await answer).status, 408);
  t.is(refusals(), 0);
});

test('a body that makes room for others is 408, and a small one passes while there is none', async (t) => {
  const clock = fakeClock();
  const { port, bytesHeld, refusals } = await start(t, { budgetBytes: 10, clock });
  const { port: smallPort } = await start(t, { budget: uncountedBodies });
  const slow = exchange({ port, send: `${head('Content-Length: 1000')}{"a":"12345` });
  while (bytesHeld() === 0) await sleep(2);
  const send = `${head('Content-Length: 2')}{}`;
  t.is((await exchange({ port, send })).status, 503);
  t.is((await exchange({ port: smallPort, send })).status, 200);
  await clock.advance(5_000);
  t.is((await slow).status, 408);
  t.is(refusals(), 2);
  t.is((await exchange({ port, send })).status, 200);
});

test('what a client still sends after its refusal is not held', async (t) => {
  const sentLater = Promise.withResolvers<WeakRef<object>>();
  const { port } = await start(t, {
    bodyMs: 100,
    before: async (ctx, next) => {
      await next().catch((error: unknown) => {
        ctx.req.once('data', (piece: Buffer) => sentLater.resolve(new WeakRef(piece)));
        throw error;
      });
    },
  });
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.on('error', () => {});
  socket.write(`${head('Content-Length: 9000')}{`);
  await once(socket, 'data');
  socket.write(' '.repeat(4_096));
  const piece = await sentLater.promise;
  t.true(await untilCollected(piece));
  t.false(socket.closed, 'it lingers meanwhile');
});
