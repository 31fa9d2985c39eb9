import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { openSqlite, schemaNumber } from '../../../../shared/store/sqlite/open-sqlite.ts';
import { inTransaction } from '../../../../shared/store/sqlite/sqlite-calls.ts';
import { openSqliteStore } from '../../../../shared/store/sqlite/sqlite-store.ts';
import { createSqliteHome, holdLock, releaseAfterTurns, type SqliteHome } from '../sqlite-home.ts';

test('opening waits for another process that creates the tables, and then finds them', async (t) => {
  await using home = await createSqliteHome();
  using lock = new DatabaseSync(home.file);
  lock.exec('PRAGMA journal_mode = WAL; BEGIN IMMEDIATE');
  const opening = home.open();
  lock.exec(await tablesOfAnother());
  const released = releaseAfterTurns(lock, 5, 'COMMIT');
  await using store = await opening;
  t.true(released());
  t.is(await store.accounts.findAccount('user:ann'), undefined);
});

test('opening a store changes nothing in it, and does not wait for another process that writes', async (t) => {
  await using home = await createSqliteHome();
  await using _first = await home.open();
  using database = new DatabaseSync(home.file);
  const schemaOf = () => database.prepare('SELECT name, sql FROM sqlite_schema ORDER BY name').all();
  const before = schemaOf();
  database.exec('BEGIN IMMEDIATE');
  await using store = await home.open();
  t.deepEqual(await store.audit.listAudit({ limit: 10 }), []);
  t.deepEqual(schemaOf(), before);
  database.exec('ROLLBACK');
});

test('opening gives up on a lock that is never released', async (t) => {
  await using home = await createSqliteHome();
  using _lock = holdLock(home.file);
  await t.throwsAsync(home.open(), { message: /cannot be opened.*locked/ });
});

test('readers do not wait for writers, and a commit alone does not wait for the disk', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  t.like(database.prepare('PRAGMA journal_mode').get(), { journal_mode: 'wal' });
  t.like(database.prepare('PRAGMA synchronous').get(), { synchronous: 1 });
});

test('a transaction that finds the disk full leaves nothing behind, and the next one works', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  database.exec('PRAGMA max_page_count = 10');
  const insert = database.prepare(`INSERT INTO accounts (id, document) VALUES (?, '{}')`);
  const tooMuch = () => {
    insert.run('user:ann');
    insert.run('user:bob'.repeat(20_000));
  };
  t.throws(() => inTransaction(database, tooMuch), { message: /full/ });
  t.false(database.isTransaction);
  inTransaction(database, () => insert.run('user:carl'));
  t.like(database.prepare('SELECT group_concat(id) AS ids FROM accounts').get(), { ids: 'user:carl' });
});

test('rejects a database with another schema, says what to do, and does not change it', async (t) => {
  for (const number of [schemaNumber + 1, 99, -1]) {
    await using home = await createSqliteHome();
    const database = new DatabaseSync(home.file);
    database.exec(`CREATE TABLE other (id TEXT) STRICT; PRAGMA user_version = ${number}`);
    database.close();
    const expected = `has schema ${number}, and this version uses schema ${schemaNumber}. Run the version that created`;
    await refusesAndKeeps(t, home, new RegExp(expected));
  }
});

test('rejects a file that is not a database, and does not change it', async (t) => {
  await using home = await createSqliteHome();
  await writeFile(home.file, 'not a database. '.repeat(1_000));
  await refusesAndKeeps(t, home, /not a database/);
});

test('rejects a folder', async (t) => {
  await using home = await createSqliteHome();
  await t.throwsAsync(openSqliteStore(home.folder), { message: /cannot be opened/ });
});

test('creates the parent folders of the file', async (t) => {
  await using home = await createSqliteHome();
  await using store = await openSqliteStore(join(home.folder, 'not', 'yet', 'store.db'));
  await t.notThrowsAsync(store.ping());
});

/** The statements that create the tables of a store and set its version. */
async function tablesOfAnother(): Promise<string> {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  const tables = database
    .prepare(`SELECT group_concat(sql, ';') AS sql FROM sqlite_schema WHERE sql IS NOT NULL`)
    .get();
  const version = database.prepare('PRAGMA user_version').get();
  return `${tables?.sql}; PRAGMA user_version = ${version?.user_version}`;
}

async function refusesAndKeeps(t: ExecutionContext, home: SqliteHome, message: RegExp): Promise<void> {
  const before = await readFile(home.file);
  const error = await t.throwsAsync(openSqliteStore(home.file), { message });
  t.true(error.message.includes(home.file));
  t.true(before.equals(await readFile(home.file)));
  t.deepEqual(await readdir(home.folder), ['store.db']);
}
