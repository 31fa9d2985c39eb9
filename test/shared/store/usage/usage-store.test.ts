import test from 'ava';
import { openDurableCommits } from '../../../../shared/store/sqlite/durable-commits.ts';
import { createSqliteCalls } from '../../../../shared/store/sqlite/sqlite-calls.ts';
import { openSqlite } from '../../../../shared/store/sqlite/sqlite-store.ts';
import { createSqliteUsage } from '../../../../shared/store/sqlite/sqlite-usage.ts';
import { createUsageStore } from '../../../../shared/store/usage/usage-store.ts';
import { createSqliteHome } from '../sqlite-home.ts';
import { entryAt, sumOf, usageRecord, usageRecords } from '../usage-records.ts';

test('of two concurrent repairs, one that missed a record does not undo the other', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  await using commits = openDurableCommits(home.file);
  const tables = createSqliteUsage(database, createSqliteCalls(database, commits));
  const store = createUsageStore(tables);
  const records = usageRecords(5, (index) => ({ entry: entryAt(10 + index) }));
  await store.recordUsage(records);
  await home.spoilSums();

  const misplaced = usageRecord({ entry: entryAt(1) });
  const slow = createUsageStore({
    ...tables,
    async replaceSum(sum, kept) {
      await store.recordUsage([misplaced]); // after the slow one has read all records, and before it writes
      return tables.replaceSum(sum, kept);
    },
  });
  t.false(await slow.repairUsage('user:ann', '2026-12', ''));
  t.deepEqual(await store.findUsageSum('user:ann', '2026-12'), sumOf([misplaced, ...records]));
});

test('a repair gives up with SERVICE_UNAVAILABLE if the sum changes each time', async (t) => {
  await using home = await createSqliteHome();
  using database = await openSqlite(home.file);
  await using commits = openDurableCommits(home.file);
  const tables = createSqliteUsage(database, createSqliteCalls(database, commits));
  const store = createUsageStore({ ...tables, replaceSum: async () => false });
  await store.recordUsage([usageRecord({ entry: entryAt(10) })]);
  await t.throwsAsync(store.recordUsage([usageRecord({ entry: entryAt(1) })]), { code: 'SERVICE_UNAVAILABLE' });
});
