import { rm, writeFile } from 'node:fs/promises';
import { mock } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { ulid } from 'ulid';
import { receiveFile } from '../../../ingress/files/receive-file.ts';
import type { Rest } from '../../../shared/concurrency/in-turn.ts';
import { temporarilyUnavailable } from '../../../shared/errors.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { line } from '../../support/file-client.ts';
import { recordedLog } from '../../support/recorded-log.ts';

type Given = { rest?: Rest; announced?: number; roomFor?: number };

/** `roomFor`: the largest record that there is room for. */
async function start(t: ExecutionContext, given: Given = {}) {
  const { rest = async () => {}, announced, roomFor = Number.POSITIVE_INFINITY } = given;
  const parts = new AsyncDisposableStack();
  t.teardown(() => parts.disposeAsync());
  const home = parts.use(await createSqliteHome());
  const store = parts.use(await home.open());
  const { log, lines } = recordedLog();
  const now = new Date(1_900_000_000_000);
  const coming = {
    id: `file-${ulid()}`,
    account: 'user:a',
    createdAt: now,
    expiresAt: new Date(now.getTime() + 1_000),
  };
  const claims: number[] = [];
  const requireRoom = async () => {
    const claim = (await store.batches.findFile(coming.id))?.bytes ?? 0;
    claims.push(claim);
    if (claim > roomFor) throw new Error('there is no room');
  };
  const reception = receiveFile(coming, { store, requestsMax: 100, announced, requireRoom, log, rest });
  const left = async () => ({
    record: await store.batches.findFile(coming.id),
    bytes: await store.files.read(coming.id, 0, 1_000),
  });
  return { home, store, coming, reception, left, lines, claims };
}

const nothing = { record: undefined, bytes: undefined };

async function* piecesOf(...texts: string[]) {
  for (const text of texts) yield Buffer.from(text);
}

test('a file has a record before its bytes arrive, and is available after keep', async (t) => {
  const { store, coming, reception, left } = await start(t);
  const states: unknown[] = [];
  async function* pieces() {
    for (const piece of [`${line('a')}\n`, line('b')]) {
      states.push((await store.batches.findFile(coming.id))?.state);
      yield Buffer.from(piece);
    }
  }
  const file = await reception.take('in.jsonl', pieces());
  t.deepEqual(states, ['writing', 'writing']);
  t.is((await left()).record?.state, 'writing');
  t.deepEqual(await reception.keep(file, undefined), file);
  const { record, bytes } = await left();
  t.deepEqual(record, file);
  t.like(file, { ...coming, filename: 'in.jsonl', purpose: 'batch', state: 'ready', lines: 2 });
  t.is(bytes?.length, file.bytes);
  t.true(file.tokens > 0);
});

test('a file is kept for as long as its owner says', async (t) => {
  const { reception, left } = await start(t);
  const file = await reception.take('x', piecesOf('a'));
  const expiresAt = new Date(file.createdAt.getTime() + 3_600_000);
  t.deepEqual(await reception.keep(file, 3_600), { ...file, expiresAt });
  t.deepEqual((await left()).record?.expiresAt, expiresAt);
});

test('after discard nothing is left of an interrupted, refused or unkept file', async (t) => {
  async function* breakingOff() {
    yield Buffer.from('a\n');
    throw new Error('the client has left');
  }
  for (const take of [
    ({ reception }) => t.throwsAsync(reception.take('x', breakingOff()), { message: 'the client has left' }),
    ({ reception }) => t.throwsAsync(reception.take('x', piecesOf('a\n'.repeat(101))), { message: /line 101/ }),
    ({ reception }) => t.throwsAsync(reception.take('x', piecesOf()), { message: 'file: is empty' }),
    ({ reception }) => reception.take('x', piecesOf('a')),
  ] as ((started: Awaited<ReturnType<typeof start>>) => Promise<unknown>)[]) {
    const started = await start(t);
    await take(started);
    await started.reception.discard();
    t.deepEqual(await started.left(), nothing);
  }
});

test('discard removes nothing before take, and everything after a keep whose result was lost', async (t) => {
  const { reception, left } = await start(t);
  await reception.discard();
  await reception.keep(await reception.take('x', piecesOf('a')), undefined);
  await reception.discard();
  t.deepEqual(await left(), nothing);
});

test('work that blocks the event loop is followed by a rest, and a small file has none', async (t) => {
  const rests: number[] = [];
  const rest: Rest = async (workMs) => void rests.push(workMs);
  const small = await start(t, { rest });
  await small.reception.take('x', piecesOf('a'));
  t.deepEqual(rests, []);
  const large = await start(t, { rest });
  const { bytes } = await large.reception.take(
    'x',
    piecesOf(line('a', { content: 'Hello, you. '.repeat(340_000) }), '\na'),
  );
  t.true(bytes > 4_000_000);
  t.true(rests.length >= 1);
  t.true(rests.every((workMs) => workMs >= 10));
});

test('a file counts before its bytes are stored: its record is ahead of them, and has their number at the end', async (t) => {
  const { store, coming, reception, claims, left } = await start(t);
  const piece = `${'x'.repeat(999_999)}\n`;
  let arrived = 0;
  async function* pieces() {
    for (let count = 0; count < 20; count++) {
      const counted = (await store.batches.findFile(coming.id))?.bytes ?? 0;
      t.true(counted >= arrived);
      arrived += piece.length;
      yield Buffer.from(piece);
    }
  }
  const file = await reception.take('x', pieces());
  t.deepEqual(claims, [65_536, 2e6, 6e6, 14e6, 15e6 + 8_388_608]);
  await reception.keep(file, undefined);
  t.is((await left()).record?.bytes, 20e6);
});

test('a file counts with no more than its client has announced', async (t) => {
  const { reception, claims } = await start(t, { announced: 700 });
  await reception.take('x', piecesOf('x'.repeat(500)));
  t.deepEqual(claims, [700]);
});

test('a file that finds no room, at its beginning or later, is refused, and nothing of it is left', async (t) => {
  for (const roomFor of [1, 65_536]) {
    const { reception, claims, left } = await start(t, { roomFor });
    const bytes = piecesOf('x'.repeat(60_000), 'x'.repeat(60_000));
    await t.throwsAsync(reception.take('x', bytes), { message: 'there is no room' });
    t.is(claims.length, roomFor === 1 ? 1 : 2);
    await reception.discard();
    t.deepEqual(await left(), nothing);
  }
});

test('a file whose record was removed during the upload is not kept', async (t) => {
  const { store, coming, reception } = await start(t);
  const file = await reception.take('x', piecesOf('a'));
  await store.batches.removeFile(coming.id);
  await t.throwsAsync(reception.keep(file, undefined), { code: 'SERVICE_UNAVAILABLE' });
});

test('a failing disk is 503', async (t) => {
  const { home, reception } = await start(t);
  await rm(`${home.file}-files`, { recursive: true, force: true });
  await writeFile(`${home.file}-files`, 'a file instead of the folder');
  await t.throwsAsync(reception.take('x', piecesOf('a')), { code: 'SERVICE_UNAVAILABLE' });
});

for (const name of ['bytes', 'record'] as const) {
  test(`while the ${name} of a file cannot be removed, its record stays, so that its bytes can be found`, async (t) => {
    const { store, coming, reception, left, lines } = await start(t);
    await reception.take('x', piecesOf('a'));
    const refuse = () => Promise.reject(temporarilyUnavailable(new Error('away')));
    if (name === 'bytes') store.files.remove = refuse;
    else store.batches.removeFile = refuse;
    await reception.discard();
    t.deepEqual(
      lines.map(({ level, message }) => [level, /could not be removed/.test(message)]),
      [['warn', true]],
    );
    const { record, bytes } = await left();
    t.like(record, { id: coming.id, state: 'writing' });
    t.is(bytes?.length, name === 'bytes' ? 1 : undefined);
    const later = new Date(coming.createdAt.getTime() + 1);
    t.like(await store.batches.listFilesToRemove(coming.createdAt, later, 10), { 0: { id: coming.id }, length: 1 });
  });
}

test.serial('a client waits 2 s for a store that does not answer, and the removal continues after that', async (t) => {
  const { store, reception, left } = await start(t);
  await reception.take('x', piecesOf('a'));
  const answer = Promise.withResolvers<void>();
  const removed = Promise.withResolvers<void>();
  const [removeBytes, removeRecord] = [store.files.remove, store.batches.removeFile];
  store.files.remove = async (id) => {
    await answer.promise;
    await removeBytes.call(store.files, id);
  };
  store.batches.removeFile = async (id) => {
    await removeRecord.call(store.batches, id);
    removed.resolve();
  };
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  let isOver = false;
  const discarding = reception.discard().then(() => {
    isOver = true;
  });
  mock.timers.tick(1_999);
  await turn();
  t.false(isOver);
  mock.timers.tick(1);
  await discarding;
  mock.timers.reset();
  answer.resolve();
  await removed.promise;
  t.deepEqual(await left(), nothing);
});
