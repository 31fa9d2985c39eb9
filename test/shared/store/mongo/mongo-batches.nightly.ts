import test from 'ava';
import { openMongoStore } from '../../../../shared/store/mongo/mongo-store.ts';
import { openMongoTests } from '../../../support/mongodb/mongo-tests.ts';
import { patientLimits } from '../../../support/mongodb/open-patient-store.ts';
import { urlThrough } from '../../../support/mongodb/start-mongo.ts';
import { untilItWorks } from '../../../support/mongodb/until-it-works.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';
import { batchOf, resultOf, retryOf } from '../batch-records.ts';
import { testBatchesContract, testBatchRacesContract } from '../batches-contract.ts';
import { testLineRacesContract, testLinesContract } from '../lines-contract.ts';
import { testRoomRacesContract, testRoomsContract } from '../rooms-contract.ts';
import { failsWith } from '../store-contract.ts';

const { mongoTest, mongoTestAlone, createHome } = await openMongoTests(test);

testBatchesContract({ test: mongoTest, createHome });
testLinesContract({ test: mongoTest, createHome });
testRoomsContract({ test: mongoTest, createHome });
testBatchRacesContract({ test: mongoTestAlone, createHome });
testLineRacesContract({ test: mongoTestAlone, createHome });
testRoomRacesContract({ test: mongoTestAlone, createHome });

for (const where of ['before', 'after'] as const) {
  mongoTest(
    `a connection that is cut ${where} results are written loses nothing, and they can be inserted again`,
    async (t) => {
      await using home = await createHome();
      await using store = await home.open();
      await using proxy = await startTcpProxy(home.primary);
      const { id } = batchOf();
      const results = [1, 2, 3].map((line) => resultOf(id, line));
      await using cut = openMongoStore(urlThrough(proxy.port, home.url), { log: { warn() {} }, limits: patientLimits });
      await untilItWorks(() => cut.ping());
      const reached = where === 'before' ? proxy.holdBefore('batch_results') : proxy.holdAfter('batch_results');
      const inserting = failsWith(t, 'SERVICE_UNAVAILABLE', cut.batches.insertResults(results));
      await reached;
      await cut[Symbol.asyncDispose]();
      await inserting;

      const later = results.map((result) => ({ ...result, customId: 'of a later run' }));
      const stored = where === 'before' ? later : results;
      t.deepEqual(await store.batches.insertResults(later), stored);
      t.deepEqual(await store.batches.listResults(id, { after: 0, limit: 10 }), stored);
    },
  );
}

mongoTest(
  'documents are found by id and by few indexes, and the index of open batches contains only those',
  async (t) => {
    await using home = await createHome();
    await using store = await home.open();
    const [open, closed] = [batchOf({ metadata: { $a: 'b' } }), batchOf({ open: false })];
    for (const batch of [open, closed]) await store.batches.insertBatch(batch);
    await store.batches.insertResults([resultOf(open.id, 12)]);
    await store.batches.recordRetry(retryOf(open.id, 12));
    const documents = (name: string) =>
      home.database.collection<{ _id: string }>(name).find().sort({ _id: 1 }).toArray();
    const { id, metadata: _, open: __, ...fields } = open;
    const [first, second] = (await documents('batches')).sort(({ _id }) => (_id === id ? -1 : 1));
    t.deepEqual(first as unknown, { _id: id, open: id, metadata: '{"$a":"b"}', ...fields, revision: 1 });
    t.false(second === undefined || 'open' in second);
    t.deepEqual(await documents('batch_results'), [{ _id: `${id}-00000012`, ...resultOf(id, 12), revision: 1 }]);
    t.deepEqual(await documents('batch_retries'), [{ _id: `${id}-00000012`, ...retryOf(id, 12), revision: 1 }]);

    const plain = { unique: undefined, sparse: undefined };
    t.deepEqual(await home.indexes('batches'), [
      { key: { account: 1, _id: 1 }, ...plain },
      { key: { account: 1, keyId: 1, _id: 1 }, ...plain },
      { key: { claim: 1 }, unique: true, sparse: true },
      { key: { open: 1 }, ...plain, sparse: true },
      { key: { account: 1, open: 1, _id: 1 }, ...plain },
      { key: { inputFile: 1, open: 1, _id: 1 }, ...plain },
      { key: { ended: 1 }, ...plain, sparse: true },
    ]);
    t.deepEqual(await home.indexes('batch_results'), [{ key: { batch: 1, failed: 1, _id: 1 }, ...plain }]);
    t.deepEqual(await home.indexes('files'), [
      { key: { account: 1, state: 1, purpose: 1, _id: 1 }, ...plain },
      { key: { account: 1, state: 1, keyId: 1, purpose: 1, _id: 1 }, ...plain },
      { key: { account: 1, state: 1, bytes: 1 }, ...plain },
      { key: { state: 1, expiresAt: 1, _id: 1 }, ...plain },
    ]);
  },
);
