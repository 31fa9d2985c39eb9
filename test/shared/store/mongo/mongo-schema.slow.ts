import test from 'ava';
import type { Db } from 'mongodb';
import { checkAtomicUpdates, schemaNumber } from '../../../../shared/store/mongo/mongo-schema.ts';
import { openMongoStore } from '../../../../shared/store/mongo/mongo-store.ts';
import { openMongoTests } from '../../../support/mongodb/mongo-tests.ts';
import { failsWith } from '../store-contract.ts';

const { mongoTest, createHome } = await openMongoTests(test);

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
