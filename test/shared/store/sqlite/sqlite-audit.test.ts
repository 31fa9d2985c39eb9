import { DatabaseSync } from 'node:sqlite';
import test from 'ava';
import { changeSettings } from '../../../../shared/account-changes/change-settings.ts';
import { testAuditContract } from '../audit-contract.ts';
import { createSqliteHome } from '../sqlite-home.ts';
import { failsWith, mint } from '../store-contract.ts';

// Tests with many calls block this process, and would keep concurrent tests from releasing a lock in time.
testAuditContract({ test: test.serial, createHome: createSqliteHome });

const suspend = changeSettings({ settings: { suspended: true }, at: new Date(), by: 'user:olga' });

test('a change and its record are made together or not at all', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  const { account } = await mint(store, 'user:ann');
  using database = new DatabaseSync(home.file);
  database.exec(`CREATE TRIGGER no_records BEFORE INSERT ON audit_records BEGIN SELECT RAISE(ABORT, 'no'); END`);
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.changeAccount('user:ann', suspend));
  t.deepEqual(await store.findAccount('user:ann'), account);

  database.exec('DROP TRIGGER no_records');
  t.like(await store.changeAccount('user:ann', suspend), { suspended: true });
  t.like(await store.audit.listAudit({ limit: 10 }), { length: 1, 0: { change: { suspended: true } } });
});

test('the database version stays the same, so that the previous release can still open it', async (t) => {
  await using home = await createSqliteHome();
  await using _store = await home.open();
  using database = new DatabaseSync(home.file);
  t.deepEqual({ ...database.prepare('PRAGMA user_version').get() }, { user_version: 4 });
});

test('the table is added to a database of the previous release, and opening it again changes nothing', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  await mint(store, 'user:ann');
  using database = new DatabaseSync(home.file);
  database.exec('DROP TABLE audit_records');
  const schemaOf = () => database.prepare('SELECT name FROM sqlite_schema ORDER BY name').all();
  await using second = await home.open();
  const schema = schemaOf();
  t.like(await second.changeAccount('user:ann', suspend), { suspended: true });
  database.exec('BEGIN IMMEDIATE');
  await using third = await home.open();
  t.like(await third.audit.listAudit({ limit: 10 }), { length: 1 }, 'it opens while another process writes');
  t.deepEqual(schemaOf(), schema);
  database.exec('ROLLBACK');
});
