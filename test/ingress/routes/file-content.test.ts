import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import Router from '@koa/router';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import Koa from 'koa';
import { answerErrors } from '../../../ingress/middleware/answer-errors.ts';
import { cutSlowReaders } from '../../../ingress/middleware/cut-slow-readers.ts';
import { assignRequestId } from '../../../ingress/middleware/request-head.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { stageOf } from '../../support/api-routes.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { serveApp } from '../../support/serve-app.ts';
import { storedFile } from '../../support/stored-batch.ts';

const size = 40_000_000;

/** A listener with the one route, and a file larger than the system buffers of both ends. */
async function start(t: ExecutionContext, bounds: Parameters<typeof cutSlowReaders>[0] = {}) {
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const home = parts.use(await createSqliteHome());
  const store = parts.use(await home.open());
  const file = storedFile('user:a', { bytes: size });
  await store.batches.insertFile(file);
  async function* bytes() {
    for (let written = 0; written < size; written += 1_000_000) yield Buffer.alloc(1_000_000, 'x');
  }
  await store.files.write(file.id, bytes());

  let blocksRead = 0;
  const files = {
    ...store.files,
    read: (id: string, from: number, bytesMax: number) => {
      blocksRead++;
      return store.files.read(id, from, bytesMax);
    },
  };
  const { log } = recordedLog();
  const app = new Koa<RequestState>();
  app.use(cutSlowReaders(bounds));
  app.use(assignRequestId);
  app.use(answerErrors({ log, docsUrl: '' }));
  app.use(async (ctx, next) => {
    const caller = { account: 'user:a', plan: 'free', suspended: false, version: 1, overageEnabled: false };
    Object.assign(ctx.state, { caller, now: Date.now() });
    await next();
  });
  const router = new Router<RequestState>();
  router.get('/:file', stageOf('retrieveFileContent', { store: { batches: store.batches, files }, log }));
  app.use(router.routes());
  app.on('error', () => {});
  const { server, port } = parts.use(await serveApp(app));
  const cut = once(server, 'connection').then(([connection]) => once(connection as Socket, 'close'));
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(`GET /${file.id} HTTP/1.1\r\nHost: x\r\n\r\n`);
  return { socket, cut, blocksRead: () => blocksRead };
}

test('a client that reads nothing of a file is disconnected, and no more of the file was read than could be sent', async (t) => {
  const { socket, cut, blocksRead } = await start(t, { stuckMs: 300 });
  await once(socket, 'readable');
  await cut;
  const read = blocksRead();
  t.true(read < size / 262_144 / 2, `${read} blocks`);
  let received = 0;
  socket.on('data', (bytes) => {
    received += bytes.length;
  });
  await once(socket, 'close');
  t.true(received < size, `${received} bytes`);
  t.is(blocksRead(), read);
});

test('a client that reads slowly gets all of it', async (t) => {
  const { socket } = await start(t);
  let received = 0;
  let whole = size;
  while (received < whole && !socket.closed) {
    const bytes: unknown = socket.read(4_000_000) ?? socket.read();
    if (bytes instanceof Buffer) {
      if (received === 0) whole += bytes.indexOf('\r\n\r\n') + 4;
      received += bytes.length;
    }
    await sleep(20);
  }
  t.is(received, whole);
});
