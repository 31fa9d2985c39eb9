import { stat } from 'node:fs/promises';
import test from 'ava';
import { createBatchRecords } from '../../../../shared/store/records/batch-records.ts';
import { createSqliteCalls } from '../../../../shared/store/sqlite/sqlite-calls.ts';
import { createSqliteDocuments } from '../../../../shared/store/sqlite/sqlite-documents.ts';
import { openSqlite } from '../../../../shared/store/sqlite/sqlite-store.ts';
import { createSqliteHome } from '../sqlite-home.ts';

const insert = `INSERT INTO accounts (id, document) VALUES ('user:ann', '{}')`;

test('a write returns only after its commit is durable', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  const onDisk = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<unknown>();
  const { read, write } = createSqliteCalls(database, {
    flush() {
      asked.resolve(database.prepare('SELECT count(*) AS accounts FROM accounts').get());
      return onDisk.promise;
    },
  });
  let isAnswered = false;
  const writing = write(() => database.exec(insert)).then(() => {
    isAnswered = true;
  });
  t.like(await asked.promise, { accounts: 1 }, 'it was committed first');
  t.like(await read(() => database.prepare('SELECT id FROM accounts').get()), { id: 'user:ann' });
  t.false(isAnswered);
  onDisk.resolve();
  await writing;
  t.true(isAnswered);
});

test('a result that depends on a read waits for the disk as well', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  let asked = 0;
  const calls = createSqliteCalls(database, {
    async flush() {
      asked++;
    },
  });
  const { changeBatch, findBatch } = createBatchRecords((collection) =>
    createSqliteDocuments(database, calls, collection),
  );
  t.is(await findBatch('batch_1'), undefined);
  t.is(asked, 0);
  t.is(await changeBatch('batch_1', () => ({ result: 'nothing to change' })), 'nothing to change');
  t.is(asked, 1);
});

test('a failed disk is SERVICE_UNAVAILABLE, and a failed transaction does not wait for the disk', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  let asked = 0;
  const { write } = createSqliteCalls(database, {
    async flush() {
      asked++;
      throw new Error('EIO: i/o error, fdatasync');
    },
  });
  await t.throwsAsync(
    write(() => database.exec(insert)),
    { code: 'SERVICE_UNAVAILABLE' },
  );
  await t.throwsAsync(
    write(() => {
      throw new Error('the transaction failed');
    }),
    { message: 'the transaction failed' },
  );
  t.is(asked, 1);
});

test('a disk that responds while the process is blocked is no failure, also if it is asked several times', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  const diskMs = 200;
  const commits = {
    async flush() {
      await stat(home.folder);
      for (const blockedUntil = performance.now() + diskMs; performance.now() < blockedUntil; );
      for (let calls = 0; calls < 5; calls += 1) await stat(home.folder);
    },
  };
  const { write } = createSqliteCalls(database, commits, { diskMs });
  await t.notThrowsAsync(write(() => database.exec(insert)));
});

test('a disk that does not respond is SERVICE_UNAVAILABLE', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  const { write } = createSqliteCalls(database, { flush: () => new Promise(() => {}) }, { diskMs: 10 });
  await t.throwsAsync(
    write(() => database.exec(insert)),
    { code: 'SERVICE_UNAVAILABLE' },
  );
});
