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
