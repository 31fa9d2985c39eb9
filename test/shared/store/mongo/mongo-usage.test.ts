import test from 'ava';
import { MongoStore } from '../../../../shared/store/mongo/mongo-store.ts';
import { openMongoTests } from '../../../support/mongodb/mongo-tests.ts';
import { urlThrough } from '../../../support/mongodb/start-mongo.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';
import { failsWith } from '../store-contract.ts';
import { isExact, testUsageContract } from '../usage-contract.ts';
import { testUsageRacesContract } from '../usage-races-contract.ts';
import { entryAt, usageRecord, usageRecords } from '../usage-records.ts';

const { mongoTest, mongoTestAlone, createHome } = await openMongoTests(test);

testUsageContract({ test: mongoTest, createHome });
testUsageRacesContract({ test: mongoTestAlone, createHome });

for (const collection of ['usage_records', 'usage_sums']) {
  for (const where of ['before', 'after'] as const) {
    mongoTest(`a connection that is cut ${where} a write of ${collection} loses nothing`, async (t) => {
      await using home = await createHome();
      await using proxy = await startTcpProxy(home.primary);
      const records = usageRecords(50, (index) => ({ account: `user:${index % 3}` }));
      const misplaced = usageRecord({ account: 'user:1', entry: entryAt(7), requestId: 'req_misplaced' });
      await using store = await home.open();
      await store.recordUsage(records.slice(0, 30));

      await using cut = new MongoStore(urlThrough(proxy.port, home.url), { log: { warn() {} } });
      await cut.ping();
      const reached = where === 'before' ? proxy.holdBefore(collection) : proxy.holdAfter(collection);
      const recording = failsWith(t, 'SERVICE_UNAVAILABLE', cut.recordUsage([misplaced, ...records.slice(30)]));
      await reached;
      await cut[Symbol.asyncDispose]();
      await recording;

      await store.recordUsage([misplaced, ...records.slice(30)]);
      await isExact(t, store, [misplaced, ...records]);
    });
  }
}

mongoTest('a record and a sum are one document each, and the searched fields are indexed', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  const { requestId, ...record } = usageRecord({ model: 'a.b$c%' });
  await store.recordUsage([{ requestId, ...record }]);
  t.deepEqual(await home.database.collection<{ _id: string }>('usage_records').find().toArray(), [
    { _id: requestId, ...record },
  ]);
  const counts = { requests: 1, failed: 0, cancelled: 0, promptTokens: 10, completionTokens: 5, chargedTokens: 15 };
  const total = { ...counts, overageTokens: 0 };
  t.deepEqual(await home.database.collection<{ _id: string }>('usage_sums').find().toArray(), [
    {
      _id: 'user:ann 2026-12',
      account: 'user:ann',
      month: '2026-12',
      lastEntry: record.entry,
      repairs: 0,
      total,
      days: { '2026-12-05': { 'a%2Eb%24c%25': total } },
    },
  ]);
  t.deepEqual(await home.indexes('usage_records'), [
    { key: { account: 1, month: 1, entry: 1 }, unique: undefined, sparse: undefined },
    { key: { month: 1 }, unique: undefined, sparse: undefined },
  ]);
});
