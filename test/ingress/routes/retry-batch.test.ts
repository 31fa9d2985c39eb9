import Router from '@koa/router';
import test, { type ExecutionContext } from 'ava';
import Koa from 'koa';
import { createInsertWithRoom } from '../../../ingress/files/account-room.ts';
import { createCopyLines } from '../../../ingress/files/copy-lines.ts';
import { answerErrors } from '../../../ingress/middleware/answer-errors.ts';
import type { RequestState } from '../../../ingress/request-state.ts';
import { type Batch, resultIdOf } from '../../../shared/batches/batch.ts';
import { rateLimitExceeded, temporarilyUnavailable } from '../../../shared/errors.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { mountRoutes } from '../../support/api-routes.ts';
import { lineOf } from '../../support/batch-client.ts';
import { batchPlan } from '../../support/batch-plan.ts';
import { type Death, dying } from '../../support/dying.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { serveApp } from '../../support/serve-app.ts';
import { storedBatch, storedFile } from '../../support/stored-batch.ts';

const account = 'user:ann';
const input = `\ufeff${lineOf('one')}\n\n   \n${lineOf('two')}\r\n${lineOf('three')}\n${lineOf('four')}`;
/** The numbers of lines of the input, and the errors with which they ended. */
const errors = [
  [4, 'UPSTREAMS_EXHAUSTED'],
  [6, 'batch_cancelled'],
] as const;

async function* bytesOf(text: string) {
  yield Buffer.from(text);
}

/** A batch that has ended, with its files. */
async function insertEnded(store: Store, change: Partial<Batch> = {}): Promise<Batch> {
  const batch = storedBatch(account, { state: 'cancelled', metadata: { of: 'ann' }, outputSeconds: 7_200, ...change });
  const [inputFile, errorFile] = [storedFile(account, { bytes: input.length }), storedFile(account)];
  const lines = errors.map(
    ([line, code]) => `${JSON.stringify({ id: resultIdOf(batch.id, line), error: { code } })}\n`,
  );
  for (const [file, text] of [
    [inputFile, input],
    [errorFile, lines.join('')],
  ] as const) {
    await store.batches.insertFile(file);
    await store.files.write(file.id, bytesOf(text));
  }
  const ended = { ...batch, inputFile: inputFile.id, errorFile: errorFile.id };
  await store.batches.insertBatch(ended);
  return ended;
}

async function start(t: ExecutionContext) {
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const home = parts.use(await createSqliteHome());
  const store = parts.use(await home.open());
  const { log } = recordedLog();

  /** An ingress, which may die. */
  async function serve(death?: Death, copiesMax?: number, change: Partial<Store['batches']> = {}) {
    const { files } = store;
    const batches = { ...store.batches, ...change };
    const mortal =
      death === undefined ? { parts: { batches, files }, hasDied: () => false } : dying({ batches, files }, death);
    const used = { ...store, ...mortal.parts };
    const app = new Koa<RequestState>();
    app.use(answerErrors({ log, docsUrl: '' }));
    app.use(async (ctx, next) => {
      ctx.state.caller = { account, plan: 'free', suspended: false, version: 1, overageEnabled: false };
      ctx.state.planFile = batchPlan();
      ctx.state.now = Date.now();
      const text = ctx.get('body');
      ctx.state.body = { text, value: JSON.parse(text) };
      await next();
    });
    const router = new Router<RequestState>();
    const giveUp = new AbortController().signal;
    const copyLines = createCopyLines({ store: used, giveUp, log, ...(copiesMax !== undefined && { copiesMax }) });
    const queue = {
      insertWithRoom: createInsertWithRoom({ store: used.batches }),
      requestsToEnd: { has: async () => false },
    };
    mountRoutes(router, ['retryBatch'], { store: used, http: { copyLines }, queue });
    app.use(router.routes());
    app.on('error', () => {});
    const served = await serveApp(app);
    t.teardown(() => served[Symbol.dispose]());
    const retry = async (id: string, body: object = {}, key?: string) => {
      const headers = { body: JSON.stringify(body), ...(key !== undefined && { 'idempotency-key': key }) };
      const response = await fetch(`${served.url}/v1/batches/${id}/retry`, { method: 'POST', headers });
      return {
        status: response.status,
        headers: response.headers,
        body: (await response.json()) as Record<string, unknown>,
      };
    };
    return { retry, hasDied: mortal.hasDied };
  }

  const retriesOf = async (id: string) =>
    (await store.batches.listBatches(account, { limit: 100 })).filter(({ retryOf }) => retryOf === id);
  const textOf = async (file: string) => Buffer.from((await store.files.read(file, 0, 100_000)) ?? []).toString();
  return { store, serve, retriesOf, textOf };
}

test('the new file has exactly the lines that are wanted, byte for byte', async (t) => {
  const { store, serve, textOf } = await start(t);
  const ended = await insertEnded(store);
  const { retry } = await serve();
  const expected = {
    failed: `${lineOf('two')}\r\n`,
    unfinished: `${lineOf('four')}\n`,
    all: `${lineOf('two')}\r\n${lineOf('four')}\n`,
  };
  for (const [lines, text] of Object.entries(expected)) {
    const { status, body } = await retry(ended.id, { lines });
    t.like(
      { status, body },
      { status: 200, body: { retry_of: ended.id, metadata: { of: 'ann' }, status: 'validating' } },
    );
    t.is(await textOf(String(body.input_file_id)), text);
    const file = await store.batches.findFile(String(body.input_file_id));
    t.like(file, { state: 'ready', bytes: Buffer.byteLength(text), lines: lines === 'all' ? 2 : 1 });
    t.true(Number(file?.expiresAt) - Date.now() > 86_400_000);
    t.is((await store.batches.findBatch(String(body.id)))?.outputSeconds, 7_200);
  }
});

test('a repeat with the same key returns the same batch, and another request with it is refused', async (t) => {
  const { store, serve, retriesOf } = await start(t);
  const [ended, other] = [await insertEnded(store), await insertEnded(store)];
  const { retry } = await serve();
  const all = await Promise.all(Array.from({ length: 4 }, () => retry(ended.id, {}, 'once')));
  t.deepEqual(new Set(all.map(({ body }) => body.id)).size, 1);
  t.is((await retry(ended.id, {}, 'once')).headers.get('idempotent-replayed'), 'true');
  for (const [id, body] of [
    [ended.id, { lines: 'all' }],
    [other.id, {}],
  ] as const)
    t.like(await retry(id, body, 'once'), { status: 422, body: { code: 'IDEMPOTENCY_MISMATCH' } });
  t.is((await retriesOf(ended.id)).length, 1);
  t.is((await store.batches.listFiles(account, { limit: 100 })).length, 5, 'no file of a repeat is left');
});

test('a batch that runs, files that are gone, and batches without such lines are refused', async (t) => {
  const { store, serve } = await start(t);
  const { retry } = await serve();
  const running = await insertEnded(store, { state: 'in_progress' });
  t.like(await retry(running.id), { status: 409, body: { code: 'CONFLICT' } });
  for (const lost of ['inputFile', 'errorFile'] as const) {
    const ended = await insertEnded(store);
    await store.batches.removeFile(ended[lost] ?? '');
    t.like(await retry(ended.id), { status: 404, body: { code: 'NOT_FOUND' } });
    const withoutBytes = await insertEnded(store);
    await store.files.remove(withoutBytes[lost] ?? '');
    t.like(await retry(withoutBytes.id), { status: 404 });
  }
  const whole = storedBatch(account);
  await store.batches.insertBatch(whole);
  t.like(await retry(whole.id), { status: 400, body: { error: 'lines: no line of this batch has failed' } });
  const full = await serve(undefined, 0);
  t.like(await full.retry((await insertEnded(store)).id), { status: 503, body: { code: 'SERVICE_UNAVAILABLE' } });
});

test('a batch that the store makes after it seemed to be away has its file, which else goes in an hour', async (t) => {
  const { store, serve, textOf } = await start(t);
  const ended = await insertEnded(store);
  const late: Batch[] = [];
  const away = await serve(undefined, undefined, {
    async insertBatch(batch) {
      late.push(batch);
      throw temporarilyUnavailable(new Error('the store is away'));
    },
  });
  t.is((await away.retry(ended.id)).status, 503);
  const [made] = late;
  if (made === undefined) return t.fail();
  const file = await store.batches.findFile(made.inputFile);
  t.true(Number(file?.expiresAt) - Date.now() < 3_700_000);
  await store.batches.insertBatch(made);
  t.is(await textOf(made.inputFile), `${lineOf('two')}\r\n`);
});

test('a batch that is refused leaves no file', async (t) => {
  const { store, serve } = await start(t);
  const ended = await insertEnded(store);
  const full = await serve(undefined, undefined, {
    insertBatch: async () => {
      throw rateLimitExceeded('batch_limit', 'The account has too many batches.', 60_000);
    },
  });
  t.is((await full.retry(ended.id)).status, 429);
  t.is((await store.batches.listFiles(account, { limit: 100 })).length, 2);
});

test('an ingress that dies at any step leaves no second batch, and no file that stays', async (t) => {
  const { store, serve, retriesOf, textOf } = await start(t);
  const { retry } = await serve();
  for (let call = 1, isOver = false; !isOver; call++) {
    const ended = await insertEnded(store);
    const known = new Set((await store.batches.listFiles(account, { limit: 1_000 })).map(({ id }) => id));
    const mortal = await serve({ call, when: 'after' });
    await mortal.retry(ended.id, {}, ended.id);
    isOver = !mortal.hasDied();
    t.is((await retry(ended.id, {}, ended.id)).status, 200, `after call ${call}`);
    const [batch, ...others] = await retriesOf(ended.id);
    t.deepEqual(others, []);
    t.is(await textOf(batch?.inputFile ?? ''), `${lineOf('two')}\r\n`);
    const left = (await store.batches.listFiles(account, { limit: 1_000 })).filter(({ id }) => !known.has(id));
    for (const { id, expiresAt } of left)
      t.true(id === batch?.inputFile || Number(expiresAt) - Date.now() < 3_700_000, `after call ${call}`);
    t.true(call < 60);
  }
});
