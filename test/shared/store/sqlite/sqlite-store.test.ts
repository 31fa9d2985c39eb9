import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { z } from 'zod';
import { changeSettings } from '../../../../shared/account-changes/change-settings.ts';
import type { DurableCommits } from '../../../../shared/store/sqlite/durable-commits.ts';
import { inTransaction } from '../../../../shared/store/sqlite/sqlite-calls.ts';
import { openSqlite, openSqliteStore, schemaNumber } from '../../../../shared/store/sqlite/sqlite-store.ts';
import { testAccountsContract } from '../accounts-contract.ts';
import { testChangesContract } from '../changes-contract.ts';
import { testKeyUseContract } from '../key-use-contract.ts';
import { testModelContract } from '../model-contract.ts';
import { testNamesContract } from '../names-contract.ts';
import { testRacesContract } from '../races-contract.ts';
import { createSqliteHome, holdLock, releaseAfterTurns, type SqliteHome } from '../sqlite-home.ts';
import { failsWith, mint, newKey, testStoreContract } from '../store-contract.ts';

type Minter = ChildProcessByStdio<Writable, Readable, null>;

const pageBytes = 4_096;
const minter = fileURLToPath(new URL('../mint-from-process.ts', import.meta.url));

testStoreContract({ test, createHome: createSqliteHome, description: /^sqlite 3\.\d+\.\d+$/ });
testChangesContract({ test, createHome: createSqliteHome });
testNamesContract({ test, createHome: createSqliteHome });
testAccountsContract({ test, createHome: createSqliteHome });
// Tests with many calls block this process, and would keep those from releasing a lock in time that do so themselves: they are serial, too.
testRacesContract({ test: test.serial, createHome: createSqliteHome });
testKeyUseContract({ test: test.serial, createHome: createSqliteHome });
testModelContract({ test: test.serial, createHome: createSqliteHome });

test.serial('waits for a lock of another connection, without blocking the process', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  using lock = holdLock(home.file);
  const key = newKey();
  const minting = mint(store, 'user:ann', { key });
  // Released by this process: a store that blocks while it waits would never get it.
  const released = releaseAfterTurns(lock, 5);
  t.true((await minting).minted);
  t.true(released());
  t.is((await store.accounts.findKeyOwner([key.hash]))?.account, 'user:ann');
});

test('a lock that is never released is SERVICE_UNAVAILABLE for writers, and does not affect readers', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  const key = newKey();
  await mint(store, 'user:ann', { key });
  using lock = holdLock(home.file);
  const mints = [1, 2, 3].map((index) => mint(store, `user:${index}`));
  t.is((await store.accounts.findKeyOwner([key.hash]))?.account, 'user:ann');
  t.false((await mint(store, 'user:ann')).minted, 'nothing has to be written');
  const errors = await Promise.all(mints.map((minting) => failsWith(t, 'SERVICE_UNAVAILABLE', minting)));
  for (const { message } of errors) t.false(message.includes(home.folder));

  lock.exec('ROLLBACK');
  t.is(await store.accounts.findAccount('user:1'), undefined);
  t.true((await mint(store, 'user:1')).minted);
});

test('closing the store while a mint waits for a lock fails the mint', async (t) => {
  await using home = await createSqliteHome();
  const store = await home.open();
  using _lock = holdLock(home.file);
  const minting = mint(store, 'user:ann');
  await store[Symbol.asyncDispose]();
  await failsWith(t, 'SERVICE_UNAVAILABLE', minting);
});

test('processes that open a new file at the same time mint each key once', async (t) => {
  await using home = await createSqliteHome();
  const accounts = Array.from({ length: 25 }, (_, index) => `user:${index}`);
  const processes = await Promise.all([1, 2, 3, 4].map(() => startMinter(home.url, accounts)));
  const minted = await Promise.all(processes.map(finishMinter));
  t.deepEqual(minted.flat().sort(), accounts.toSorted());

  await using store = await home.open();
  for (const account of accounts) t.like(await store.accounts.findAccount(account), { plan: 'free', version: 1 });
});

test('a decision on a plain read is repeated under the lock', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  await mint(store, 'user:ann');
  using another = new DatabaseSync(home.file);
  const change = changeSettings({ settings: { suspended: true }, at: new Date(), by: 'user:operator' });
  let asked = 0;
  const changed = await store.accounts.changeAccount('user:ann', (account) => {
    asked += 1;
    if (asked === 1) another.exec(`UPDATE accounts SET document = json_set(document, '$.plan', 'pro', '$.version', 2)`);
    return change(account);
  });
  t.like(changed, { plan: 'pro', suspended: true, version: 3 });
  t.deepEqual(await store.accounts.findAccount('user:ann'), changed);
});

test('an invalid document is an internal error, neither an unknown key nor an outage', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  using database = new DatabaseSync(home.file);
  const insert = database.prepare('INSERT INTO accounts (id, document) VALUES (?, ?)');
  insert.run('user:ann', '{"id": "user:ann", "plan": 7, "keys": [{"id": "key_1", "hash": "odd"}]}');
  database.exec(`INSERT INTO accounts_byKeyHash (value, id) VALUES ('odd', 'user:ann')`);
  await t.throwsAsync(store.accounts.findKeyOwner(['odd']), { instanceOf: z.ZodError });
  await t.throwsAsync(store.accounts.findAccount('user:ann'), { instanceOf: z.ZodError });
  await t.throwsAsync(mint(store, 'user:ann'), { instanceOf: z.ZodError });
  t.throws(() => insert.run('user:bob', 'no document'), { message: /json_valid/ });
});

test('a damaged database is SERVICE_UNAVAILABLE, not an unknown key', async (t) => {
  await using home = await createSqliteHome();
  const before = await home.open();
  const key = newKey();
  await mint(before, 'user:ann', { key });
  await before[Symbol.asyncDispose]();
  await damage(home.file);

  await using store = await home.open();
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.accounts.findKeyOwner([key.hash]));
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.accounts.findAccount('user:ann'));
  const error = await failsWith(t, 'SERVICE_UNAVAILABLE', mint(store, 'user:ann'));
  t.false(error.message.includes(home.folder));
});

async function startMinter(url: string, accounts: readonly string[]): Promise<Minter> {
  const child = spawn(process.execPath, [minter, url, ...accounts], { stdio: ['pipe', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return child;
}

/** The accounts that this process minted a key for. */
async function finishMinter(child: Minter): Promise<unknown[]> {
  const output = text(child.stdout);
  child.stdin.write('go\n');
  return z.array(z.string()).parse(JSON.parse(await output));
}

/** Overwrites the first page of every table and index. The schema, which is read when the database is opened, stays intact. */
async function damage(file: string): Promise<void> {
  const pages = rootPages(file);
  const bytes = await readFile(file);
  for (const page of pages) bytes.fill(0xff, (page - 1) * pageBytes, page * pageBytes);
  await writeFile(file, bytes);
}

function rootPages(file: string): number[] {
  using database = new DatabaseSync(file);
  const rows = database.prepare('SELECT rootpage FROM sqlite_schema WHERE rootpage > 0').all();
  return rows.map((row) => z.object({ rootpage: z.int() }).parse(row).rootpage);
}

test('a change without an effect waits for the disk as well, and reports a failed disk', async (t) => {
  await using home = await createSqliteHome();
  let asked = 0;
  let failure: Error | undefined;
  const openCommits = (): DurableCommits => ({
    async flush() {
      asked++;
      if (failure !== undefined) throw failure;
    },
    check() {
      if (failure !== undefined) throw failure;
    },
    async [Symbol.asyncDispose]() {},
  });
  await using store = await openSqliteStore(home.file, { openCommits });
  await mint(store, 'user:ann');
  const written = asked;
  t.true(written > 0);
  t.false((await mint(store, 'user:ann')).minted);
  t.is(asked, written + 1);
  await t.notThrowsAsync(store.ping());

  failure = new Error('EIO: i/o error, fdatasync');
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.ping());
  await failsWith(t, 'SERVICE_UNAVAILABLE', mint(store, 'user:ann'));
});

test.serial('opening waits for another process that creates the tables, and then finds them', async (t) => {
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
