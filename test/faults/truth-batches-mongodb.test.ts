import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { openMongoHome } from '../support/truth/store-homes.ts';
import { testTruthOfBatches } from './truth-batches.ts';

const mongo = await startMongo();

if ('url' in mongo) {
  testTruthOfBatches({ test, lines: 5_000, openHome: (parts) => openMongoHome(parts, mongo, 'batch') });
} else {
  test('a batch under fire over a MongoDB is skipped', (t) => {
    t.log(`TESTS AGAINST MONGODB ARE SKIPPED: ${mongo.reason}`);
    t.not(process.env.CI, 'true');
  });
}
