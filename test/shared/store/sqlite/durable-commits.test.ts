import { stat } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { openDurableCommits } from '../../../../shared/store/sqlite/durable-commits.ts';
import { openSqlite } from '../../../../shared/store/sqlite/sqlite-store.ts';
import { createSqliteHome } from '../sqlite-home.ts';

const mebibyte = 1_048_576;

test('a long log is moved into the file in another thread, and nothing is lost', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  let now = 0;
  await using commits = openDurableCommits(home.file, { now: () => now });
  const insert = database.prepare(`INSERT INTO accounts (id, document) VALUES (?, json_object('text', ?))`);
  insert.run('user:small', 'x');
  await commits.flush();
  const before = await stat(home.file);
  for (let account = 1; account <= 6; account++) insert.run(`user:${account}`, 'x'.repeat(mebibyte));
  await commits.flush();
  t.true((await stat(`${home.file}-wal`)).size > 6 * mebibyte);

  // The first check saw a short log. The next one is five seconds later.
  t.is((await stat(home.file)).size, before.size);
  now += 5_000;
  await commits.flush();
  while ((await stat(home.file)).size < before.size + 6 * mebibyte) await nextTurn();

  // After a checkpoint the log starts again and is truncated, so its length shows how much it holds.
  while ((await stat(`${home.file}-wal`)).size > 2 * mebibyte) {
    now += 5_000;
    insert.run(`user:${now}`, 'x');
    await commits.flush();
  }
  t.like(database.prepare('PRAGMA integrity_check').get(), { integrity_check: 'ok' });
  t.like(database.prepare(`SELECT count(*) AS large FROM accounts WHERE length(document) > ?`).get(mebibyte), {
    large: 6,
  });
});

test('closing waits for the thread and for the disk, and later calls fail', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  const commits = openDurableCommits(home.file);
  database
    .prepare(`INSERT INTO accounts (id, document) VALUES ('user:ann', json_object('text', ?))`)
    .run('x'.repeat(5 * mebibyte));
  await commits.flush();
  const flushing = commits.flush();
  await commits[Symbol.asyncDispose]();
  await t.notThrowsAsync(flushing);
  await t.throwsAsync(commits.flush(), { message: 'the store is closed' });
});

test('all concurrent calls that wait for the disk settle, also after the file is lost', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  await using commits = openDurableCommits(home.file);
  database.exec(`INSERT INTO accounts (id, document) VALUES ('user:ann', '{}')`);
  await t.notThrowsAsync(Promise.all(Array.from({ length: 100 }, () => commits.flush())));
  await using elsewhere = openDurableCommits(`${home.folder}/not-there`);
  await t.throwsAsync(elsewhere.flush(), { code: 'ENOENT' });
});

test('after one disk failure every later call fails, even if the disk would succeed', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  database.exec(`INSERT INTO accounts (id, document) VALUES ('user:ann', '{}')`);
  let failures = 1;
  const datasync = async () => {
    if (failures-- > 0) throw new Error('EIO: i/o error, fdatasync');
  };
  await using commits = openDurableCommits(home.file, { datasync });
  t.notThrows(() => commits.check());
  for (let call = 0; call < 3; call++) await t.throwsAsync(commits.flush(), { message: /^EIO/ });
  t.throws(() => commits.check(), { message: /^EIO/ });
});
