import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { z } from 'zod';
import { inTransaction, openSqlite } from '../../../shared/store/open-sqlite.ts';
import { SqliteStore } from '../../../shared/store/sqlite-store.ts';
import { failsWith, newKey, type StoreHome, testStoreContract } from './store-contract.ts';

type Minter = ChildProcessByStdio<Writable, Readable, null>;

const minter = fileURLToPath(new URL('mint-from-process.ts', import.meta.url));

testStoreContract({ test, createHome, description: /^sqlite 3\.\d+\.\d+$/ });

test('a lock that another connection holds is waited for, and the process goes on meanwhile', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  using lock = holdLock(home.file);
  const key = newKey();
  const mint = store.mintDeveloperKey({ account: 'user:ann', plan: 'free', key });
  // Released by this very process: a store that stood still until it has the lock would never get it.
  const released = releaseAfterTurns(lock, 5);
  t.true((await mint).minted);
  t.true(released());
  t.is((await store.findKeyOwner(key.hash))?.account, 'user:ann');
});

test('a lock that is never released is SERVICE_UNAVAILABLE for those who write, and no matter for those who read', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  const key = newKey();
  await store.mintDeveloperKey({ account: 'user:ann', plan: 'free', key });
  using lock = holdLock(home.file);
  const mints = [1, 2, 3].map((index) =>
    store.mintDeveloperKey({ account: `user:${index}`, plan: 'free', key: newKey() }),
  );
  t.is((await store.findKeyOwner(key.hash))?.account, 'user:ann');
  for (const mint of mints) {
    const error = await failsWith(t, 'SERVICE_UNAVAILABLE', mint);
    t.false(error.message.includes(home.folder));
  }

  lock.exec('ROLLBACK');
  t.is(await store.findAccount('user:1'), undefined);
  t.true((await store.mintDeveloperKey({ account: 'user:1', plan: 'free', key: newKey() })).minted);
});

test('a store that is closed while a mint waits for a lock fails the mint', async (t) => {
  await using home = await createHome();
  const store = await home.open();
  using _lock = holdLock(home.file);
  const mint = store.mintDeveloperKey({ account: 'user:ann', plan: 'free', key: newKey() });
  await store[Symbol.asyncDispose]();
  await failsWith(t, 'SERVICE_UNAVAILABLE', mint);
});

test('opening waits for whoever is creating the tables, and then finds them', async (t) => {
  await using home = await createHome();
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
  await using home = await createHome();
  using _lock = holdLock(home.file);
  await t.throwsAsync(home.open(), { message: /cannot be opened.*locked/ });
});

test('processes that start at once on a file that is not there mint each key once', async (t) => {
  await using home = await createHome();
  const accounts = Array.from({ length: 25 }, (_, index) => `user:${index}`);
  const processes = await Promise.all([1, 2, 3, 4].map(() => startMinter(`sqlite:${home.file}`, accounts)));
  const minted = await Promise.all(processes.map(finishMinter));
  t.deepEqual(minted.flat().sort(), accounts.toSorted());

  await using store = await home.open();
  for (const account of accounts) t.deepEqual(await store.findAccount(account), { plan: 'free', version: 1 });
});

test('an account that has no key gets one on the plan it stands on', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  using database = new DatabaseSync(home.file);
  database.exec(
    `INSERT INTO accounts (id, plan, version, created_at) VALUES ('user:ann', 'pro', 4, 0), ('user:bob', 'pro', 1, 0)`,
  );
  const { minted, account } = await store.mintDeveloperKey({ account: 'user:ann', plan: 'free', key: newKey() });
  t.true(minted);
  t.like(account, { plan: 'pro', version: 5, key: { plan: 'pro' } });
  t.deepEqual(await store.findAccount('user:bob'), { plan: 'pro', version: 1 });
});

test('commits are on the disk before they are answered, and readers do not wait for writers', async (t) => {
  await using home = await createHome();
  using database = await openSqlite(home.file);
  t.like(database.prepare('PRAGMA journal_mode').get(), { journal_mode: 'wal' });
  t.like(database.prepare('PRAGMA synchronous').get(), { synchronous: 2 });
});

test('a transaction that finds the disk full leaves nothing behind, and the next one works', async (t) => {
  await using home = await createHome();
  using database = await openSqlite(home.file);
  database.exec('PRAGMA max_page_count = 10');
  const insert = database.prepare('INSERT INTO accounts (id, plan, version, created_at) VALUES (?, ?, 1, 0)');
  const tooMuch = () => {
    insert.run('user:ann', 'free');
    insert.run('user:bob', 'x'.repeat(100_000));
  };
  t.throws(() => inTransaction(database, tooMuch), { message: /full/ });
  t.false(database.isTransaction);
  inTransaction(database, () => insert.run('user:carl', 'free'));
  t.like(database.prepare('SELECT group_concat(id) AS ids FROM accounts').get(), { ids: 'user:carl' });
});

test('refuses a database of a newer version, and leaves it as it is', async (t) => {
  await using home = await createHome();
  const database = new DatabaseSync(home.file);
  database.exec('CREATE TABLE later (id TEXT) STRICT; PRAGMA user_version = 99');
  database.close();
  await refusesAndKeeps(t, home, /version 99.*newer/);
});

test('refuses a file that is no database, and leaves it as it is', async (t) => {
  await using home = await createHome();
  await writeFile(home.file, 'not a database. '.repeat(1_000));
  await refusesAndKeeps(t, home, /not a database/);
});

test('refuses a folder', async (t) => {
  await using home = await createHome();
  await t.throwsAsync(SqliteStore.open(home.folder), { message: /cannot be opened/ });
});

test('creates the folders that the file is to be in', async (t) => {
  await using home = await createHome();
  await using store = await SqliteStore.open(join(home.folder, 'not', 'yet', 'store.db'));
  await t.notThrowsAsync(store.ping());
});

test('a database that was damaged is SERVICE_UNAVAILABLE, not an unknown key', async (t) => {
  await using home = await createHome();
  const before = await home.open();
  const key = newKey();
  await before.mintDeveloperKey({ account: 'user:ann', plan: 'free', key });
  await before[Symbol.asyncDispose]();
  await damage(home.file);

  await using store = await home.open();
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.findKeyOwner(key.hash));
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.findAccount('user:ann'));
  const mint = store.mintDeveloperKey({ account: 'user:ann', plan: 'free', key: newKey() });
  const error = await failsWith(t, 'SERVICE_UNAVAILABLE', mint);
  t.false(error.message.includes(home.folder));
});

type SqliteHome = StoreHome & { folder: string; file: string };

async function createHome(): Promise<SqliteHome> {
  const folder = await mkdtemp(join(tmpdir(), 'sqlite-store-'));
  const file = join(folder, 'store.db');
  return {
    folder,
    file,
    open: () => SqliteStore.open(file),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

/** The lock that every writer needs, held until this connection lets go of it. */
function holdLock(file: string): DatabaseSync {
  const database = new DatabaseSync(file);
  database.exec('BEGIN IMMEDIATE');
  return database;
}

/** Lets go after so many turns of this process's event loop; the result says whether it has. */
function releaseAfterTurns(lock: DatabaseSync, turns: number, how: 'COMMIT' | 'ROLLBACK' = 'ROLLBACK'): () => boolean {
  let left = turns;
  const timer = setInterval(() => {
    left -= 1;
    if (left > 0) return;
    clearInterval(timer);
    lock.exec(how);
  }, 1);
  return () => left === 0;
}

/** What creates the tables of a store, and says that they are there. */
async function tablesOfAnother(): Promise<string> {
  await using home = await createHome();
  using database = await openSqlite(home.file);
  const tables = database
    .prepare(`SELECT group_concat(sql, ';') AS sql FROM sqlite_schema WHERE sql IS NOT NULL`)
    .get();
  const version = database.prepare('PRAGMA user_version').get();
  return `${tables?.sql}; PRAGMA user_version = ${version?.user_version}`;
}

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

async function refusesAndKeeps(t: ExecutionContext, home: SqliteHome, message: RegExp): Promise<void> {
  const before = await readFile(home.file);
  const error = await t.throwsAsync(SqliteStore.open(home.file), { message });
  t.true(error.message.includes(home.file));
  t.true(before.equals(await readFile(home.file)));
  t.deepEqual(await readdir(home.folder), ['store.db']);
}

/** Overwrites everything after the first page, which alone is read when the database is opened. */
async function damage(file: string): Promise<void> {
  const bytes = await readFile(file);
  await writeFile(file, bytes.fill(0xff, 4_096));
}
