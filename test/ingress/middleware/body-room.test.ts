import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import {
  type BodyBudget,
  createBodyBudget,
  createLargeBodies,
  largeBytesMin,
  pacedBytesMin,
  type RefusedBodies,
  uncountedBodies,
} from '../../../ingress/listener/body-budget.ts';
import { type RequestState, type Stage, stateOf } from '../../../ingress/request-state.ts';
import { ApiError } from '../../../shared/errors.ts';
import { echo, head, later, startBodyReader } from '../../support/body-reader.ts';
import { untilCollected } from '../../support/collect-garbage.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { exchange } from '../../support/raw-http.ts';

test('a body that has arrived and does not fit the room is read in chunks', async (t) => {
  const release = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  const { port, bytesHeld } = await startBodyReader(t, {
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

test('without room for its first byte a body is 503 before it is read, and there is room again when another leaves', async (t) => {
  const release = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  const { port, refusals, bytesHeld } = await startBodyReader(t, {
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
  t.is(bytesHeld(), 16, 'the body of a running request is held');
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

test('a body releases its room before its request ends, if a stage reports that it is no longer held', async (t) => {
  const { port, bytesHeld } = await startBodyReader(t, {
    budgetBytes: 10,
    handle: async (ctx) => {
      ctx.state.bodyShare?.leave();
      ctx.body = { held: bytesHeld() };
    },
  });
  t.is((await exchange({ port, send: `${head('Content-Length: 16')}{"a":"12345678"}` })).body, '{"held":0}');
});

test('a body that waited for room until its time was over is 503, and a slow one is 408', async (t) => {
  const clock = fakeClock();
  const bodyMs = 3_000;
  const { port, bytesHeld } = await startBodyReader(t, { budgetBytes: 100, bodyMs, clock });
  const started = `${head('Content-Length: 1000')}{"a":"${'1'.repeat(60)}`;
  const slow = exchange({ port, send: started });
  while (bytesHeld() === 0) await sleep(2);
  const waiting = exchange({ port, send: started });
  while (bytesHeld() < 100) await sleep(2);
  await clock.advance(bodyMs / 2 + 100);
  t.deepEqual([(await slow).status, (await waiting).status], [408, 503]);
  t.is(bytesHeld(), 0);
});

test('only an invalid body of an account, before it is queued, counts as refused', async (t) => {
  const counted: [account: string, bytes: number][] = [];
  const turns: string[] = [];
  const refusedBodies: RefusedBodies = {
    mustWait: () => true,
    turn: async (account) => void turns.push(account),
    add: (account, bytes) => void counted.push([account, bytes]),
  };
  const handle: Stage = async (ctx) => {
    const { is } = stateOf(ctx, 'body').value as { is?: string }; // what this test sends
    if (is === 'queued') ctx.state.bodyShare?.leave();
    if (is === 'ours') throw new ApiError('SERVICE_UNAVAILABLE', 'Retry.');
    if (is !== 'right') throw new ApiError('VALIDATION_ERROR', 'It is invalid.');
    ctx.body = {};
  };
  const { port } = await startBodyReader(t, { before: called, handle, refusedBodies });
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
  t.is(await send('{', 'X-Account: device:a'), 400);
  t.deepEqual(counted.at(-1), ['2001:db8:0:1::/64', 1], 'devices of one network wait together');
});

/** Reads the caller's account from a header; a device has the plan of devices. */
const called: Stage = async (ctx, next) => {
  const account = ctx.get('x-account');
  const plan = account.startsWith('device:') ? 'guest-device' : 'free';
  ctx.state.address = '2001:db8:0:1::7';
  if (account !== '') ctx.state.caller = { account, plan } as NonNullable<RequestState['caller']>; // no stage here uses more
  await next();
};

test('all devices together have the part of one account, and others have a part each', async (t) => {
  const holders: string[] = [];
  const budget: Pick<BodyBudget, 'enter'> = {
    enter(holder, source) {
      holders.push(holder);
      return uncountedBodies.enter(holder, source);
    },
  };
  const { port } = await startBodyReader(t, { before: called, budget });
  for (const account of ['user:a', 'user:b', 'device:a', 'device:b', ''])
    await exchange({ port, send: `${head('Content-Length: 2', ...(account ? [`X-Account: ${account}`] : []))}{}` });
  t.deepEqual(holders, ['user:a', 'user:b', 'guest-device', 'guest-device', 'anonymous']);
});

test('a body that waited only for a moment, and then arrives slowly, is 408', async (t) => {
  const clock = fakeClock();
  const bodyMs = 5_000;
  const { port, bytesHeld, refusals } = await startBodyReader(t, { budgetBytes: 100, bodyMs, clock });
  const started = `${head('Content-Length: 1000')}{"a":"${'1'.repeat(60)}`;
  const leaving = connect(port, '127.0.0.1');
  leaving.write(started);
  while (bytesHeld() === 0) await sleep(2);
  const answer = exchange({ port, send: started });
  while (bytesHeld() < 100) await sleep(2);
  await clock.advance(bodyMs / 2 - 100);
  leaving.destroy();
  t.is((await answer).status, 408);
  t.is(refusals(), 0);
});

test('a body that is ended for others is 408, and a small one is admitted while there is no room', async (t) => {
  const clock = fakeClock();
  const { port, bytesHeld, refusals } = await startBodyReader(t, { budgetBytes: 10, clock });
  const { port: smallPort } = await startBodyReader(t, { budget: uncountedBodies });
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

test('bytes that a client sends after its refusal are not held', async (t) => {
  const sentLater = Promise.withResolvers<WeakRef<object>>();
  const { port } = await startBodyReader(t, {
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
  t.false(socket.closed, 'the connection lingers meanwhile');
});

test('of the large bodies of one account that begin at once none is read before its time, and others have room', async (t) => {
  const size = 2 * pacedBytesMin;
  const waits = Promise.withResolvers<void>();
  const paced = createLargeBodies({ bytesAtOnceMax: size, bytesPerSecond: 1 });
  let large = 0;
  const largeBodies: typeof paced = {
    ...paced,
    time(...body) {
      const time = paced.time(...body);
      if (++large === 20) waits.resolve();
      return time;
    },
  };
  const { port, giveUp, bytesHeld } = await startBodyReader(t, {
    ...{ bodyBytesMax: size, budgetBytes: 4 * size, largeBodies, before: called, lingerMs: 0 },
    handle(ctx) {
      ctx.state.bodyShare?.leave();
      ctx.body = {};
      return Promise.resolve();
    },
  });
  const body = JSON.stringify({ a: 'x'.repeat(size - 10) });
  const send = (account: string, text: string) =>
    exchange({ port, send: head(`Content-Length: ${text.length}`, `X-Account: user:${account}`) + text });
  const all = Array.from({ length: 20 }, () => send('a', body));
  t.is((await Promise.race(all)).status, 200);
  await waits.promise;
  t.deepEqual([(await send('b', '{}')).status, (await send('a', '{}')).status], [200, 200]);
  t.is(bytesHeld(), 0);
  giveUp.abort(new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down. Retry.'));
  const statuses = (await Promise.all(all)).map(({ status }) => status);
  t.deepEqual(statuses.toSorted(), [200, ...Array(19).fill(503)]);
});

test('a large body of unknown length is read before its time up to 4 MiB, and refused then', async (t) => {
  const size = 3 * pacedBytesMin;
  const largeBodies = createLargeBodies({ bytesAtOnceMax: size, bytesPerSecond: 1 });
  let heldMax = 0;
  const bodies = createBodyBudget({ bytesMax: 4 * size });
  const budget: typeof bodies = {
    ...bodies,
    enter(holder, source) {
      const share = bodies.enter(holder, source);
      if (share === undefined) return undefined;
      const add = (bytes: number) => {
        share.add(bytes);
        heldMax = Math.max(heldMax, bodies.bytesHeld());
      };
      return Object.create(share, { add: { value: add } });
    },
  };
  const waits = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const { port } = await startBodyReader(t, {
    ...{ bodyBytesMax: size, budget, largeBodies, before: called, lingerMs: 0 },
    async handle(ctx) {
      ctx.state.bodyShare?.leave();
      waits.resolve();
      await answer.promise;
      ctx.body = {};
    },
  });
  const body = JSON.stringify({ a: 'x'.repeat(size - 10) });
  const chunked = head('Transfer-Encoding: chunked', 'X-Account: user:a');
  const send = () => exchange({ port, send: `${chunked}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n` });
  const first = send();
  await waits.promise;
  t.is(heldMax, body.length);
  heldMax = 0;
  const { status, headers } = await send();
  t.is(status, 503);
  t.true(
    Number(headers['retry-after']) > 0.9 * body.length,
    'the wait is that of all of the first body, while it is being answered',
  );
  answer.resolve();
  t.is((await first).status, 200);
  t.true(heldMax >= pacedBytesMin && heldMax < 1.5 * pacedBytesMin, `${heldMax} bytes held`);
  t.is(bodies.bytesHeld(), 0);
});

test('of a large body that breaks off, what has arrived takes time of its account', async (t) => {
  const settled = Promise.withResolvers<number>();
  const size = 2 * pacedBytesMin;
  const largeBodies = { ...createLargeBodies({ bytesAtOnceMax: size }), time: async () => settled.resolve };
  const { port, bytesHeld } = await startBodyReader(t, {
    ...{ bodyBytesMax: size, budgetBytes: size, largeBodies, before: called },
  });
  const socket = connect(port, '127.0.0.1');
  socket.write(head(`Content-Length: ${size}`, 'X-Account: user:a') + ' '.repeat(100_000));
  while (bytesHeld() < 100_000) await sleep(5);
  socket.destroy();
  t.is(await settled.promise, 100_000);
});

test('a large body that waits to be parsed is no longer held once its client has left', async (t) => {
  const paced = createLargeBodies({ bytesAtOnceMax: 1 });
  const waits = Promise.withResolvers<void>();
  const largeBodies: typeof paced = {
    ...paced,
    place(...body) {
      waits.resolve();
      return paced.place(...body);
    },
  };
  const leave = await paced.place(1, new AbortController().signal);
  const { port, bytesHeld } = await startBodyReader(t, {
    ...{ bodyBytesMax: 2 * largeBytesMin, budgetBytes: 4 * largeBytesMin, largeBodies },
  });
  const body = JSON.stringify({ a: 'x'.repeat(largeBytesMin) });
  const socket = connect(port, '127.0.0.1');
  socket.write(head(`Content-Length: ${body.length}`) + body);
  await waits.promise;
  t.is(bytesHeld(), body.length);
  socket.destroy();
  while (bytesHeld() > 0) await sleep(5);
  leave();
  t.is((await exchange({ port, send: head(`Content-Length: ${body.length}`) + body })).status, 200);
});

test('while a large body waits for its time, a shutdown answers it', async (t) => {
  const paced = createLargeBodies({ bytesAtOnceMax: pacedBytesMin, bytesPerSecond: pacedBytesMin / 10 });
  const waits = Promise.withResolvers<void>();
  let large = 0;
  const largeBodies: typeof paced = {
    ...paced,
    time(...body) {
      const time = paced.time(...body);
      if (++large === 2) waits.resolve();
      return time;
    },
  };
  const { port, giveUp } = await startBodyReader(t, { bodyBytesMax: 2 * pacedBytesMin, before: called, largeBodies });
  const body = JSON.stringify({ a: 'x'.repeat(pacedBytesMin) });
  const send = () => exchange({ port, send: head(`Content-Length: ${body.length}`, 'X-Account: user:a') + body });
  t.is((await send()).status, 200);
  const second = send();
  await waits.promise;
  giveUp.abort(new ApiError('SERVICE_UNAVAILABLE', 'The service is shutting down. Retry.'));
  t.is((await second).status, 503);
});
