import test from 'ava';
import { MongoClient } from 'mongodb';
import { findPrimary } from '../support/mongodb/mongo-home.ts';
import { startRelay } from '../support/mongodb/relay.ts';
import { databaseUrl, startMongo, urlThrough } from '../support/mongodb/start-mongo.ts';
import { testTruth } from './truth.ts';

const mongo = await startMongo();

if ('url' in mongo) {
  testTruth({
    test,
    requests: 3_000,
    async openHome(parts) {
      parts.use(mongo);
      const directUrl = databaseUrl(mongo.url, `truth_${process.pid}`);
      await using client = new MongoClient(directUrl);
      const relay = parts.use(await startRelay(await findPrimary(client), 'pass'));
      return {
        url: urlThrough(relay.port, directUrl),
        directUrl,
        cut: async () => relay.become('silence'),
        restore: () => relay.become('pass'),
      };
    },
  });
} else {
  test('the truth over a MongoDB is skipped', (t) => {
    t.log(`TESTS AGAINST MONGODB ARE SKIPPED: ${mongo.reason}`);
    t.not(process.env.CI, 'true');
  });
}
