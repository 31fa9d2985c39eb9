import test from 'ava';
import { type Db, MongoServerError } from 'mongodb';
import {
  checkAtomicUpdates,
  createIndexes,
  index,
  listMissingIndexes,
  prepareIndexes,
  schemaNumber,
} from '../../../../shared/store/mongo/mongo-indexes.ts';
import { openMongoStore } from '../../../../shared/store/mongo/mongo-store.ts';
import { openMongoTests } from '../../../support/mongodb/mongo-tests.ts';
import { failsWith } from '../store-contract.ts';

const { mongoTest, createHome } = await openMongoTests(test);

const byMonth = index({ month: 1, _id: 1 });
const unique = index({ 'key.hash': 1 }, { unique: true, sparse: true });
const wanted = [{ collection: 'things', indexes: [byMonth, unique] }];

/** A database whose collections answer as this says; the rest is not used. */
function databaseThat(answers: { indexes: () => unknown; createIndexes?: () => unknown; count?: number }): Db {
  const collection = {
    indexes: async () => answers.indexes(),
    createIndexes: async () => answers.createIndexes?.(),
    estimatedDocumentCount: async () => answers.count ?? 0,
  };
  return { collection: () => collection } as unknown as Db; // the calls that the tested functions make
}

function refuse(code: number): never {
  throw new MongoServerError({ message: 'refused', code });
}

test('an index is named by its keys', (t) => {
  t.deepEqual(byMonth, { key: { month: 1, _id: 1 }, name: 'month_1__id_1' });
  t.deepEqual(unique, { key: { 'key.hash': 1 }, name: 'key.hash_1', unique: true, sparse: true });
});

test('without rights to list or create indexes, all are reported, and nothing fails', async (t) => {
  const database = databaseThat({ indexes: () => refuse(13), createIndexes: () => refuse(13) });
  const names = ['things.month_1__id_1', 'things.key.hash_1'];
  t.deepEqual(await prepareIndexes(database, wanted), { refused: names, large: [] });
  t.deepEqual(await listMissingIndexes(database, wanted), names);
});

test('an index with other options under its name is reported; an error that may pass is thrown', async (t) => {
  const conflict = databaseThat({ indexes: () => refuse(26), createIndexes: () => refuse(86) });
  t.deepEqual((await prepareIndexes(conflict, wanted)).refused.length, 2);
  const steppedDown = databaseThat({ indexes: () => refuse(26), createIndexes: () => refuse(10_107) });
  await t.throwsAsync(prepareIndexes(steppedDown, wanted), { instanceOf: MongoServerError });
});

test('a unique index is needed where one is wanted, and the order of fields matters', async (t) => {
  const found = (...indexes: object[]) => listMissingIndexes(databaseThat({ indexes: () => indexes }), wanted);
  t.deepEqual(await found({ key: { month: 1, _id: 1 }, unique: true }, { key: { 'key.hash': 1 }, unique: true }), []);
  t.deepEqual(await found({ key: { month: 1, _id: 1 } }, { key: { 'key.hash': 1 } }), ['things.key.hash_1']);
  t.deepEqual(await found({ key: { _id: 1, month: 1 } }, { key: { 'key.hash': 1 }, unique: true }), [
    'things.month_1__id_1',
  ]);
});

test('indexes of a large collection are left to a build without a deadline', async (t) => {
  const large = databaseThat({ indexes: () => [{ key: { 'key.hash': 1 }, unique: true }], count: 10_001 });
  t.deepEqual(await prepareIndexes(large, wanted), {
    refused: [],
    large: [{ collection: 'things', indexes: [byMonth] }],
  });
});

mongoTest('indexes that exist under another name are accepted, and not created again', async (t) => {
  await using home = await createHome();
  await home.database.collection('usage_records').createIndexes([{ key: { month: 1, _id: 1 }, name: 'mine' }]);
  await using store = await home.open();
  t.deepEqual(await store.listMissingIndexes(), []);
  t.deepEqual(
    home.warnings.filter((line) => line.includes('index')),
    [],
  );
  const names = (await home.database.collection('usage_records').indexes()).map(({ name }) => name);
  const ours = ['account_1_admittedAt_1__id_1', 'account_1_answerId_1_admittedAt_1', 'account_1_month_1_entry_1'];
  t.deepEqual(names.sort(), ['_id_', ...ours, 'mine']);
});

mongoTest('an index that is removed while the store is used is reported, and created at the next start', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  t.deepEqual(await store.listMissingIndexes(), []);
  await home.database.collection('usage_days').dropIndex('account_1_month_1_start_1');
  t.deepEqual(await store.listMissingIndexes(), ['usage_days.account_1_month_1_start_1']);
  await using next = await home.open();
  t.deepEqual(await next.listMissingIndexes(), []);
});

mongoTest('missing indexes of a large collection are built while the store is used', async (t) => {
  await using home = await createHome();
  const documents = Array.from({ length: 10_001 }, (_, number) => ({ _id: String(number) as never, month: '2026-12' }));
  await home.database.collection('usage_records').insertMany(documents);
  await using store = await home.open();
  while ((await store.listMissingIndexes()).length > 0);
  t.true(home.warnings.some((line) => line.includes('being built')));
  t.deepEqual(await createIndexes(home.database, { collection: 'usage_records', indexes: [byMonth] }), []);
});

mongoTest('a new store notes its schema once, also if processes open it at once', async (t) => {
  await using home = await createHome();
  const stores = await Promise.all([home.open(), home.open(), home.open()]);
  t.deepEqual(await home.database.collection<object>('schema').find().toArray(), [
    { _id: 'store', number: schemaNumber },
  ]);
  for (const store of stores) await store[Symbol.asyncDispose]();
});

mongoTest('a store with another schema is refused with both numbers, and is not changed', async (t) => {
  await using home = await createHome();
  const found = schemaNumber + 1;
  await home.database.collection<{ _id: string }>('schema').insertOne({ _id: 'store', ...{ number: found } });
  await using store = openMongoStore(home.url, { log: { warn() {} } });
  const error = await failsWith(t, 'SERVICE_UNAVAILABLE', store.ping());
  const { message } = error.cause as Error;
  t.regex(message, new RegExp(`has schema ${found}, and this version uses schema ${schemaNumber}\\. Run the version`));
  t.false(message.includes(home.url));
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.accounts.findAccount('user:ann'));
  const names = (await home.database.listCollections().toArray()).map(({ name }) => name);
  t.deepEqual(names, ['schema']);
});

mongoTest('a store with data and without a number is refused, and is not changed', async (t) => {
  await using home = await createHome();
  await home.database.collection<{ _id: string }>('accounts').insertOne({ _id: 'user:ann' });
  await using store = openMongoStore(home.url, { log: { warn() {} } });
  const error = await failsWith(t, 'SERVICE_UNAVAILABLE', store.ping());
  t.regex((error.cause as Error).message, /has schema 0, and this version uses schema \d+\. Run the version/);
  const names = (await home.database.listCollections().toArray()).map(({ name }) => name);
  t.deepEqual(names, ['accounts']);
});

mongoTest('the check of updates leaves nothing behind, and removes what a killed process left', async (t) => {
  await using home = await createHome();
  const scratch = home.database.collection<{ _id: string }>('schema');
  const at = (agoMs: number) => ({ checkedAt: new Date(Date.now() - agoMs), version: 0 });
  await scratch.insertMany([
    { _id: 'check old', ...at(7_200_000) },
    { _id: 'check of another process', ...at(0) },
  ]);
  await Promise.all([checkAtomicUpdates(home.database), checkAtomicUpdates(home.database)]);
  t.deepEqual(await scratch.distinct('_id'), ['check of another process']);
});

test('a server that makes two of the updates for one version is refused, and one whose document vanished is asked again', async (t) => {
  const serverThatMakes = (made: number) => {
    let left = made;
    const scratch = {
      insertOne: async () => {},
      updateOne: async () => ({ matchedCount: left-- > 0 ? 1 : 0 }),
      deleteOne: async () => {},
      deleteMany: async () => {},
    };
    return { collection: () => scratch } as unknown as Db; // as much of it as the check uses
  };
  await t.throwsAsync(checkAtomicUpdates(serverThatMakes(2)), {
    name: 'RefusedStore',
    message: /of 50 updates .* it made 2\./,
  });
  await t.throwsAsync(checkAtomicUpdates(serverThatMakes(0)), { name: 'Error' });
});
