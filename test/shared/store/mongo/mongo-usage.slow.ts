import test from 'ava';
import { openMongoStore } from '../../../../shared/store/mongo/mongo-store.ts';
import { noDetailCounts } from '../../../../shared/store/usage/usage-record.ts';
import { openMongoTests } from '../../../support/mongodb/mongo-tests.ts';
import { patientLimits } from '../../../support/mongodb/open-patient-store.ts';
import { urlThrough } from '../../../support/mongodb/start-mongo.ts';
import { untilItWorks } from '../../../support/mongodb/until-it-works.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';
import { testFindRecordsContract } from '../find-records-contract.ts';
import { failsWith } from '../store-contract.ts';
import { isExact, testUsageContract } from '../usage-contract.ts';
import { testUsageHoursContract } from '../usage-hours-contract.ts';
import { testUsageRacesContract } from '../usage-races-contract.ts';
import { testUsageReadsContract } from '../usage-reads-contract.ts';
import { entryAt, usageRecord, usageRecords } from '../usage-records.ts';

const { mongoTest, mongoTestAlone, createHome } = await openMongoTests(test);

testUsageContract({ test: mongoTest, createHome });
testUsageHoursContract({ test: mongoTest, createHome });
testFindRecordsContract({ test: mongoTest, createHome });
testUsageReadsContract({ test: mongoTest, createHome });
testUsageRacesContract({ test: mongoTestAlone, createHome });

for (const collection of ['usage_records', 'usage_days', 'usage_hours', 'usage_sums']) {
  for (const where of ['before', 'after'] as const) {
    mongoTest(`a connection that is cut ${where} a write of ${collection} loses nothing`, async (t) => {
      await using home = await createHome();
      await using proxy = await startTcpProxy(home.primary);
      const records = usageRecords(50, (index) => ({ account: `user:${index % 3}` }));
      const misplaced = usageRecord({ account: 'user:1', entry: entryAt(7), requestId: 'req_misplaced' });
      await using store = await home.open();
      await store.usage.recordUsage(records.slice(0, 30));

      await using cut = openMongoStore(urlThrough(proxy.port, home.url), { log: { warn() {} }, limits: patientLimits });
      await untilItWorks(() => cut.ping());
      const reached = where === 'before' ? proxy.holdBefore(collection) : proxy.holdAfter(collection);
      const recording = failsWith(t, 'SERVICE_UNAVAILABLE', cut.usage.recordUsage([misplaced, ...records.slice(30)]));
      await reached;
      await cut[Symbol.asyncDispose]();
      await recording;

      await store.usage.recordUsage([misplaced, ...records.slice(30)]);
      await isExact(t, store, [misplaced, ...records]);
    });
  }
}

mongoTest('a record, a detail and a sum are one document each, and the searched fields are indexed', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  const { requestId, ...record } = usageRecord({ model: 'a.b$c%"', cachedTokens: 4 });
  await store.usage.recordUsage([{ requestId, ...record }]);
  const all = (collection: string) => home.database.collection<{ _id: string }>(collection).find().toArray();
  t.deepEqual(await all('usage_records'), [{ _id: requestId, ...record }]);
  const counts = { requests: 1, failed: 0, cancelled: 0, promptTokens: 10, completionTokens: 5, chargedTokens: 15 };
  const total = { ...counts, overageTokens: 0 };
  const month = { account: 'user:ann', month: '2026-12', lastEntry: record.entry, repairs: 0 };
  t.deepEqual(await all('usage_sums'), [{ _id: 'user:ann 2026-12', ...month, total }]);
  const place = { ...month, model: 'a.b$c%"', keyId: 'key_1', endpoint: '/v1/chat/completions' };
  const detail = { ...noDetailCounts, ...total, cachedTokens: 4, firstTokens200: 1 };
  t.deepEqual(await all('usage_days'), [
    {
      _id: '["user:ann","2026-12","2026-12-05","a.b$c%\\"","key_1","/v1/chat/completions",""]',
      ...place,
      start: '2026-12-05',
      code: '',
      counts: detail,
    },
  ]);
  t.deepEqual(await all('usage_hours'), [
    {
      _id: '["user:ann","2026-12","2026-12-05T10","a.b$c%\\"","key_1","/v1/chat/completions","completed"]',
      ...place,
      start: '2026-12-05T10',
      code: 'completed',
      counts: detail,
    },
  ]);
  const plain = { unique: undefined, sparse: undefined };
  t.deepEqual(await home.indexes('usage_records'), [
    { key: { account: 1, month: 1, entry: 1 }, ...plain },
    { key: { month: 1, _id: 1 }, ...plain },
    { key: { account: 1, admittedAt: 1, _id: 1 }, ...plain },
    { key: { account: 1, answerId: 1, admittedAt: 1 }, ...plain },
  ]);
  t.deepEqual(await home.indexes('usage_days'), [
    { key: { account: 1, month: 1, start: 1 }, ...plain },
    { key: { month: 1, _id: 1 }, ...plain },
  ]);
  t.deepEqual(await home.indexes('usage_hours'), [
    { key: { month: 1, _id: 1 }, ...plain },
    { key: { start: 1, _id: 1 }, ...plain },
  ]);
});
