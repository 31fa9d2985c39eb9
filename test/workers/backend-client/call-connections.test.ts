import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'ava';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import { atTick } from '../../../shared/fleet/gather-reads.ts';
import { startModelServer } from '../../stack/model-server.ts';
import { openBackend, readThrough } from '../../support/backend-calls.ts';
import { makeCertificate } from '../../support/certificates.ts';
import { rawAnswer, startRawBackend } from '../../support/raw-backend.ts';

const token = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n';
/** undici treats a client as busy until one turn after its call, so successive calls alternate between two connections. */
const poolOfOne = 2;
const done = `${token}data: [DONE]\n\n`;

test('a refused connection is a failed connection', async (t) => {
  const server = await startRawBackend();
  await server[Symbol.asyncDispose]();
  await using backend = openBackend(server.url);
  t.like(await t.throwsAsync(backend.whole()), { fault: 'connection', message: 'the connection failed' });
  t.like((await readThrough(backend.stream())).error, { fault: 'connection' });
});

test('a connection that is not established within connect_ms is given up', async (t) => {
  // TLS is part of connecting, and this listener never answers its handshake.
  await using server = await startRawBackend();
  await using backend = openBackend(`https://127.0.0.1:${server.port}/v1`, { connectMs: 300 });
  t.like(await t.throwsAsync(backend.whole()), { fault: 'connect_timeout' });
  t.like((await readThrough(backend.stream())).error, { fault: 'connect_timeout' });
  await server.untilClosed();
  t.is(server.connections(), 2);
});

test('the connection of a stream serves the next call after [DONE], and so does that of a whole answer', async (t) => {
  let answers = 0;
  await using server = await startRawBackend((socket) => {
    answers += 1;
    if (answers % 2 === 0) return socket.write(rawAnswer('{"choices":[]}', { type: 'application/json' }));
    socket.write(rawAnswer(done, { ended: false }));
    // The end of the body arrives after the reader has finished.
    setTimeout(() => socket.write('0\r\n\r\n'), 50);
  });
  await using backend = openBackend(server.url);
  for (let round = 0; round < 5; round++) {
    t.is((await readThrough(backend.stream())).error, undefined);
    await idle(backend);
    t.is(await backend.whole(), '{"choices":[]}');
    await idle(backend);
  }
  t.is(server.requests(), 10);
  t.true(server.connections() <= poolOfOne);
});

/** Waits until no call holds a connection. */
async function idle({ agent }: ReturnType<typeof openBackend>): Promise<void> {
  while (Object.values(agent.stats).some(({ running }) => running > 0)) await new Promise(setImmediate);
}

test('what arrives while this process stands still is in time', async (t) => {
  let finishAndStandStill = () => {};
  await using server = await startRawBackend((socket) => {
    socket.write(rawAnswer(token, { ended: false }));
    finishAndStandStill = () => {
      finishAndStandStill = () => {};
      socket.write(`${done.length.toString(16)}\r\n${done}\r\n0\r\n\r\n`);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    };
  });
  await using backend = openBackend(server.url, { idleMs: 100 });
  const { text, error } = await readThrough((onReady) =>
    backend.stream()((ready) => {
      onReady(ready);
      queueMicrotask(finishAndStandStill); // the time limit of the next event is set before it runs
    }),
  );
  t.is(error, undefined);
  t.is(text.split('"content":"a"').length - 1, 2);
});

test('the connection of an error serves the next call, once its body has been read', async (t) => {
  const body = '{"error":{"message":"no"}}';
  await using server = await startRawBackend((socket) =>
    socket.write(rawAnswer(body, { status: '500 X', type: 'application/json' })),
  );
  await using backend = openBackend(server.url);
  for (let round = 0; round < 10; round++)
    await t.throwsAsync(backend.whole(), { message: 'the backend answered 500' });
  t.is(server.requests(), 10);
  t.true(server.connections() <= poolOfOne);
});

test('a backend that keeps the connection open after [DONE] delays nothing, and loses the connection', async (t) => {
  await using server = await startRawBackend((socket) => socket.write(rawAnswer(done, { ended: false })));
  await using backend = openBackend(server.url);
  const { error } = await readThrough(backend.stream());
  t.is(error, undefined);
  await server.untilClosed();
  t.is(server.requests(), 1);
});

test('data after [DONE] is ignored, even if it arrives together with it and is not UTF-8', async (t) => {
  await using server = await startRawBackend((socket) => socket.write(rawAnswer(`${done}\u00ff`), 'latin1'));
  await using backend = openBackend(server.url);
  t.is((await readThrough(backend.stream())).error, undefined);
});

const unread: [string, string][] = [
  ['a body that is not an event stream', rawAnswer('<html>', { type: 'text/html', ended: false })],
  ['an event that cannot be read', rawAnswer(`${token}data: {"cho\n\n`, { ended: false })],
  ['an event that cannot be read, after a complete answer', rawAnswer(`data: {"cho\n\n${done}`)],
  ['an event stream of another character set', rawAnswer('data: \u00ff\n\n', { ended: false })],
];

for (const [title, answer] of unread) {
  test(`leaves no connection open with a backend that continues after ${title}`, async (t) => {
    await using server = await startRawBackend((socket) => socket.write(answer, 'latin1'));
    await using backend = openBackend(server.url);
    t.like((await readThrough(backend.stream())).error, { fault: 'unreadable' });
    if (!answer.endsWith('0\r\n\r\n')) await server.untilClosed();
    t.is(server.connections(), 1);
  });
}

const refusals: [string, string, { fault: string; message: string }][] = [
  [
    'never ends',
    rawAnswer('{"error":', { status: '500 X', ended: false }),
    { fault: 'status', message: 'the backend answered 500' },
  ],
  [
    'of a refused request never ends',
    rawAnswer('{"error":', { status: '400 X', ended: false }),
    { fault: 'status', message: 'the backend answered 400' },
  ],
  [
    'is longer than the limit',
    rawAnswer(JSON.stringify({ detail: 'x'.repeat(1_000_000) }), { status: '422 X' }),
    { fault: 'status', message: 'the backend answered 422' },
  ],
  [
    'is not UTF-8',
    rawAnswer('{"detail":"gr\u00fcn"}', { status: '400 X' }),
    { fault: 'status', message: 'the backend answered 400' },
  ],
];

for (const [title, answer, expected] of refusals) {
  test(`the status counts if the body of an error ${title}`, async (t) => {
    await using server = await startRawBackend((socket) => socket.write(answer, 'latin1'));
    await using backend = openBackend(server.url);
    for (const error of [await t.throwsAsync(backend.whole()), (await readThrough(backend.stream())).error]) {
      const { fault, message } = error as { fault?: string; message?: string };
      t.is(fault, expected.fault);
      t.true(message?.startsWith(expected.message), message);
    }
  });
}

for (const stream of [false, true]) {
  test(`aborting ends a ${stream ? 'streamed' : 'whole'} call at the backend, and leaves no connection open`, async (t) => {
    await using server = await startModelServer({ name: 'a' });
    server.fail(stream ? { endless: true, chunkMs: 2 } : { hang: true });
    await using backend = openBackend(server.url);
    const stop = new AbortController();
    const call = stream
      ? readThrough(backend.stream(stop.signal))
      : backend.whole(stop.signal).catch((error) => ({ error }));
    await server.waitForCall(({ chunksSent }) => !stream || chunksSent > 2);
    stop.abort('cancelled');
    t.like(await call, { error: { fault: 'connection' } });
    t.is((await server.waitForCall(({ state }) => state !== 'running')).state, 'aborted');
    // The backend can see it a moment before the agent does.
    const open = () =>
      Object.values(backend.agent.stats).filter(({ connected, running }) => connected !== 0 || running > 0);
    while (open().length > 0) await new Promise(setImmediate);
    t.deepEqual(open(), []);
  });
}

test('a call whose signal is already aborted sends nothing', async (t) => {
  await using server = await startRawBackend();
  await using backend = openBackend(server.url);
  t.like(await t.throwsAsync(backend.whole(AbortSignal.abort('cancelled'))), { fault: 'connection' });
  t.like((await readThrough(backend.stream(AbortSignal.abort('cancelled')))).error, { fault: 'connection' });
  // A connection made now is seen after all earlier ones.
  const probe = connect(server.port, '127.0.0.1');
  await once(probe, 'connect');
  probe.destroy();
  t.is(server.requests(), 0);
});

const chunked = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
/** Resolves in a tick, together with what waits for it: what arrives now waits for the next one. */
const ticked = () => new Promise<void>((resolve) => atTick(resolve));

/** How each answer ends after two tokens. The second one waits for a tick when the end comes. */
const ends: [title: string, end: (socket: Socket) => unknown, error: object | undefined][] = [
  ['[DONE]', (socket) => socket.write(`${chunked('data: [DONE]\n\n')}0\r\n\r\n`), undefined],
  ['the end of the connection', (socket) => socket.end(), { fault: 'connection' }],
  ['the loss of the connection', (socket) => socket.resetAndDestroy(), { fault: 'connection' }],
];

for (const [title, end, error] of ends) {
  test(`a token that waits for a tick counts before ${title}`, async (t) => {
    await using server = await startRawBackend(async (socket) => {
      socket.write(rawAnswer(token, { ended: false }));
      await begun.promise;
      await ticked();
      socket.write(chunked(token), () => end(socket));
    });
    await using backend = openBackend(server.url);
    const begun = Promise.withResolvers<void>();
    const { text, error: found } = await readThrough((onReady) =>
      backend.stream()((ready) => {
        onReady(ready);
        begun.resolve();
      }),
    );
    t.is(text.split('"content":"a"').length - 1, 2);
    if (error === undefined) t.is(found, undefined);
    else t.like(found, error);
  });
}

for (const kind of ['TCP', 'TLS'] as const) {
  test(`the first token of an answer is read at once, further ones together with other tasks of the tick (${kind})`, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'ticks-'));
    t.teardown(() => rm(folder, { recursive: true }));
    const certificate = kind === 'TLS' ? await makeCertificate(folder, 'server') : undefined;
    const answers = 6;
    let [seen, begun] = ['', Promise.withResolvers<void>()];
    await using server = await startRawBackend(async (socket) => {
      await ticked();
      atTick(() => {
        seen += 'tick ';
      });
      socket.write(rawAnswer(token, { ended: false }));
      await begun.promise;
      await ticked();
      atTick(() => {
        seen += '| tick ';
      });
      socket.write(chunked(token));
      await ticked();
      socket.write(`${chunked('data: [DONE]\n\n')}0\r\n\r\n`);
    }, certificate);
    await using backend = openBackend(server.url, {}, undefined, certificate && { caFile: certificate.certFile });
    const orders: string[] = [];
    for (let answer = 0; answer < answers; answer++) {
      [seen, begun] = ['', Promise.withResolvers()];
      const { error } = await readThrough((onReady) =>
        backend.stream()((ready) => {
          if (ready !== '') seen += 'token ';
          onReady(ready);
          begun.resolve();
        }),
      );
      t.is(error, undefined);
      orders.push(seen);
      await idle(backend);
    }
    t.true(
      orders.every((order) => order.endsWith('| tick token ')),
      orders.join(', '),
    );
    // Where the process stood still for a tick, that came first.
    t.true(
      orders.some((order) => order.startsWith('token tick ')),
      orders.join(', '),
    );
    t.is(server.requests(), answers);
    t.true(server.connections() <= poolOfOne, 'a connection has several answers');
  });
}

test('a call that is given up while another one is read ends, also when it has bytes that wait for a tick', async (t) => {
  // After so many bytes others have a turn, and more arrive meanwhile.
  const many = Math.ceil(70_000 / token.length);
  const begun = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const sockets: Socket[] = [];
  await using server = await startRawBackend(async (socket) => {
    const place = sockets.push(socket) - 1;
    socket.write(rawAnswer(token, { ended: false }));
    await begun[place]?.promise;
    if (place === 0) return;
    await ticked();
    socket.write(chunked(token.repeat(many)));
  });
  const leaving = [new AbortController(), new AbortController()];
  const givenUp = new BackendError('connection', 'given up');
  const read = async (place: number, onTokens: (tokens: number) => void) => {
    await using backend = openBackend(server.url, {}, leaving[place]?.signal);
    let tokens = 0;
    return await readThrough((onReady) =>
      backend.stream()((ready) => {
        onReady(ready);
        begun[place]?.resolve();
        tokens += 1;
        onTokens(tokens);
      }),
    );
  };
  const first = read(0, () => {});
  await begun[0]?.promise;
  const second = read(1, (tokens) => {
    if (tokens === 1 + many) for (const socket of sockets) socket.write(chunked(token));
    if (tokens === 2 + many) for (const each of leaving) each.abort(givenUp);
  });
  for (const { error } of await Promise.all([first, second])) t.like(error, { message: 'given up' });
  await server.untilClosed();
});
