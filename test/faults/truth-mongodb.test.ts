import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { openMongoHome } from '../support/truth/store-homes.ts';
import { testTruth } from './truth.ts';

const mongo = await startMongo();

if ('url' in mongo) {
  testTruth({ test, requests: 3_000, openHome: (parts) => openMongoHome(parts, mongo, 'truth') });
} else {
  test('the truth over a MongoDB is skipped', (t) => {
    t.log(`TESTS AGAINST MONGODB ARE SKIPPED: ${mongo.reason}`);
    t.not(process.env.CI, 'true');
  });
}
