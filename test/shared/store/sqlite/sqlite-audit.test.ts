import { DatabaseSync } from 'node:sqlite';
import test from 'ava';
import { changeSettings } from '../../../../shared/account-changes/change-settings.ts';
import { testAuditContract } from '../audit-contract.ts';
import { createSqliteHome } from '../sqlite-home.ts';
import { failsWith } from '../store-contract.ts';

// Tests with many calls block this process, and would keep concurrent tests from releasing a lock in time.
testAuditContract({ test: test.serial, createHome: createSqliteHome });

const unknown = { id: 'user:ann', plan: 'free' };
const suspend = changeSettings({ settings: { suspended: true }, at: new Date(), by: 'user:olga', unknown });

test('a change has its record once, also while records cannot be copied', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  using database = new DatabaseSync(home.file);
  database.exec(`CREATE TRIGGER no_records BEFORE INSERT ON audit_records BEGIN SELECT RAISE(ABORT, 'no'); END`);
  t.like(await store.accounts.changeAccount('user:ann', suspend), { suspended: true });
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.audit.copyAudit('user:ann'));
  const listed = await store.audit.listAudit({ limit: 10 });
  t.like(listed, { length: 1, 0: { change: { suspended: true } } });
  database.exec('DROP TRIGGER no_records');
  t.deepEqual(await store.audit.copyAuditAfter('', 10), { copied: 1, last: undefined, unreadable: [] });
  t.deepEqual(await store.audit.listAudit({ limit: 10 }), listed);
  t.deepEqual(await store.audit.copyAuditAfter('', 10), { copied: 0, last: undefined, unreadable: [] });
});
