import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import test, { type ExecutionContext } from 'ava';
import { inTransaction, openSqlite } from '../../../../../shared/store/sqlite/database/open-sqlite.ts';
import { SqliteStore } from '../../../../../shared/store/sqlite/sqlite-store.ts';
import { createSqliteHome, holdLock, releaseAfterTurns, type SqliteHome } from '../../sqlite-home.ts';
import { failsWith, mint, newKey } from '../../store-contract.ts';

/** As released. Do not change. */
const tablesOfVersion1 = `CREATE TABLE accounts (
    id TEXT NOT NULL PRIMARY KEY,
    plan TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    key_id TEXT,
    key_hash TEXT,
    key_display TEXT,
    key_plan TEXT,
    key_created_at INTEGER,
    CHECK (
      (key_id IS NULL) = (key_hash IS NULL) AND (key_id IS NULL) = (key_display IS NULL)
      AND (key_id IS NULL) = (key_plan IS NULL) AND (key_id IS NULL) = (key_created_at IS NULL)
    )
  ) STRICT;
  CREATE UNIQUE INDEX accounts_by_key_hash ON accounts (key_hash)`;

test('opening waits for another process that creates the tables, and then finds them', async (t) => {
  await using home = await createSqliteHome();
  using lock = new DatabaseSync(home.file);
  lock.exec('PRAGMA journal_mode = WAL; BEGIN IMMEDIATE');
  const opening = home.open();
  lock.exec(await tablesOfAnother());
  const released = releaseAfterTurns(lock, 5, 'COMMIT');
  await using store = await opening;
  t.true(released());
  t.is(await store.findAccount('user:ann'), undefined);
});

test('opening gives up on a lock that is never released', async (t) => {
  await using home = await createSqliteHome();
  using _lock = holdLock(home.file);
  await t.throwsAsync(home.open(), { message: /cannot be opened.*locked/ });
});

test('a file of the previous version is migrated, with its accounts and keys', async (t) => {
  await using home = await createSqliteHome();
  using database = new DatabaseSync(home.file);
  database.exec(`${tablesOfVersion1}; PRAGMA user_version = 1`);
  const insert = database.prepare('INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)');
  const at = new Date('2026-10-11T12:13:14.567Z');
  insert.run('user:ann', 'pro', 4, at.getTime(), 'key_1', 'the hash', 'svc_abcdef', 'free', at.getTime() + 1);
  insert.run("user:'b\"o\\b'", 'free', 2, at.getTime(), null, null, null, null, null);

  await using store = await home.open();
  const nothingEnded = {
    suspended: false,
    overageEnabled: false,
    topUpsMade: [],
    endedKeys: [],
    furtherKeys: [],
    endedFurtherKeys: [],
    changes: [],
  };
  const key = { id: 'key_1', hash: 'the hash', display: 'svc_abcdef', plan: 'free', createdAt: new Date(+at + 1) };
  const ann = { id: 'user:ann', plan: 'pro', version: 4, createdAt: at, key, ...nothingEnded };
  const bob = { id: "user:'b\"o\\b'", plan: 'free', version: 2, createdAt: at, ...nothingEnded };
  t.deepEqual(await store.findAccount(ann.id), ann);
  t.deepEqual(await store.findAccount(bob.id), bob);
  const stored = { plan: 'pro', suspended: false, overageEnabled: false, version: 4 };
  t.deepEqual(await store.findKeyOwner(['the hash']), { account: ann.id, keyId: 'key_1', ...stored });

  t.false((await mint(store, ann.id)).minted);
  t.like((await mint(store, bob.id, { plan: 'pro' })).account, { plan: 'free', version: 3, createdAt: at });
  await failsWith(t, 'INTERNAL_ERROR', mint(store, 'user:carl', { key: { ...newKey(), hash: 'the hash' } }));
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

test('rejects a database of a newer version, and does not change it', async (t) => {
  await using home = await createSqliteHome();
  const database = new DatabaseSync(home.file);
  database.exec('CREATE TABLE later (id TEXT) STRICT; PRAGMA user_version = 99');
  database.close();
  await refusesAndKeeps(t, home, /version 99.*newer/);
});

test('rejects a file that is not a database, and does not change it', async (t) => {
  await using home = await createSqliteHome();
  await writeFile(home.file, 'not a database. '.repeat(1_000));
  await refusesAndKeeps(t, home, /not a database/);
});

test('rejects a folder', async (t) => {
  await using home = await createSqliteHome();
  await t.throwsAsync(SqliteStore.open(home.folder), { message: /cannot be opened/ });
});

test('creates the parent folders of the file', async (t) => {
  await using home = await createSqliteHome();
  await using store = await SqliteStore.open(join(home.folder, 'not', 'yet', 'store.db'));
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
  const error = await t.throwsAsync(SqliteStore.open(home.file), { message });
  t.true(error.message.includes(home.file));
  t.true(before.equals(await readFile(home.file)));
  t.deepEqual(await readdir(home.folder), ['store.db']);
}

test('opening waits for another process that creates an index for longer than a call waits', async (t) => {
  t.timeout(60_000);
  await using home = await createSqliteHome();
  await (await home.open())[Symbol.asyncDispose]();
  using lock = new DatabaseSync(home.file);
  lock.exec('DROP INDEX usage_records_by_answer; BEGIN IMMEDIATE');
  const begunAt = performance.now();
  const opening = home.open();
  setTimeout(() => lock.exec('COMMIT'), 2_500);
  await using store = await opening;
  t.true(performance.now() - begunAt > 2_400);
  t.is(await store.findUsageByAnswer('user:ann', 'x'), undefined);
  const names = lock.prepare("SELECT name FROM sqlite_schema WHERE name = 'usage_records_by_answer'").all();
  t.is(names.length, 1);
});
