import { randomUUID } from 'node:crypto';
import test from 'ava';
import type { Collection } from '../../../../shared/store/documents.ts';
import { createMongoCalls } from '../../../../shared/store/mongo/mongo-calls.ts';
import { createMongoDocuments } from '../../../../shared/store/mongo/mongo-documents.ts';
import { indexesOf } from '../../../../shared/store/mongo/mongo-select.ts';
import { openMongoTests } from '../../../support/mongodb/mongo-tests.ts';
import { patientLimits } from '../../../support/mongodb/open-patient-store.ts';
import { databaseUrl } from '../../../support/mongodb/start-mongo.ts';
import { testDocumentRacesContract, testDocumentsContract, thingOf, things } from '../documents-contract.ts';

const { server, mongoTest, mongoTestAlone } = await openMongoTests(test);

async function createHome() {
  const url = databaseUrl(server().url, `test_${randomUUID()}`);
  const calls = createMongoCalls(url, { log: { warn() {} }, indexes: [indexesOf(things)], limits: patientLimits });
  return {
    database: calls.database,
    open: <Document extends object, Name extends string>(collection: Collection<Document, Name>) =>
      createMongoDocuments(calls, collection),
    async [Symbol.asyncDispose]() {
      await calls.database.dropDatabase();
      await calls[Symbol.asyncDispose]();
    },
  };
}

testDocumentsContract({ test: mongoTest, createHome });
testDocumentRacesContract({ test: mongoTestAlone, createHome });

mongoTest('a document has its id once, a revision, and the values of its lists that are indexed', async (t) => {
  await using home = await createHome();
  const documents = home.open(things);
  await documents.insert([thingOf('thing')]);
  await documents.change('thing', (kept = thingOf('thing')) => ({ result: undefined, next: { ...kept, kind: 'b' } }));
  const written = { _id: 'thing' as never, owner: 'ann', kind: 'b', isOpen: true, body: null, words: [], revision: 2 };
  t.deepEqual(await home.database.collection('things').find().toArray(), [{ ...written, parts: [] }]);
  const parts = [{ id: 'p', code: 'c' }, { id: 'q' }, { id: 'r', code: 'd' }];
  await documents.change('thing', (kept = thingOf('thing')) => ({ result: undefined, next: { ...kept, parts } }));
  const values = { byCode: ['c', 'd'], byPart: ['p', 'r'] };
  const [found] = await home.database.collection('things').find().toArray();
  t.deepEqual(found as unknown, { ...written, parts, ...values, revision: 3 });
});

mongoTest(
  'the indexes are those of the collection, and an index over a list or a unique value is sparse',
  async (t) => {
    await using home = await createHome();
    await home.open(things).find('thing');
    const all = await home.database.collection('things').indexes();
    const found = all.map(({ key, unique, sparse }) => ({ key, ...(unique && { unique }), ...(sparse && { sparse }) }));
    t.deepEqual(found, [
      { key: { _id: 1 } },
      { key: { owner: 1, kind: 1, _id: 1 } },
      { key: { owner: 1, at: 1, _id: 1 } },
      { key: { 'size.bytes': 1, _id: 1 } },
      { key: { isOpen: 1, kind: 1, 'size.bytes': 1, at: 1 } },
      { key: { claim: 1 }, unique: true, sparse: true },
      { key: { marked: 1 }, sparse: true },
      { key: { byCode: 1 }, unique: true, sparse: true },
      { key: { byPart: 1 }, sparse: true },
      { key: { byWord: 1 }, sparse: true },
    ]);
  },
);
