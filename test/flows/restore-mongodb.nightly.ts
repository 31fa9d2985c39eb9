import test from 'ava';
import { type Db, MongoClient } from 'mongodb';
import { databaseUrl, startMongo } from '../support/mongodb/start-mongo.ts';
import { skipTest } from '../support/skip-test.ts';
import { provesRestore } from './restore.ts';

const mongo = await startMongo();
const title = 'a service with MongoDB continues from a copy of its database that was made while it ran';

/** Copies all documents of all collections, as `mongodump` and `mongorestore` do; the service creates its indexes. */
async function copyAll(from: Db, to: Db): Promise<void> {
  for (const { name } of await from.listCollections({}, { nameOnly: true }).toArray()) {
    const documents = await from.collection(name).find().toArray();
    if (documents.length > 0) await to.collection(name).insertMany(documents);
  }
}

if ('url' in mongo) {
  test(title, async (t) => {
    await using _server = mongo;
    const name = `restore_${process.pid}`;
    await using client = await MongoClient.connect(mongo.url);
    const [original, backup] = [client.db(name), client.db(`${name}_backup`)];
    await provesRestore(t, {
      databaseUrl: databaseUrl(mongo.url, name),
      copy: () => ({
        save: () => copyAll(original, backup),
        async restore() {
          await original.dropDatabase();
          await copyAll(backup, original);
        },
      }),
    });
  });
} else {
  skipTest(test, { title, reason: mongo.reason });
}
