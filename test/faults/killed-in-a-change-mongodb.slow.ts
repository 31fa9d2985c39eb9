import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { testKilledInAChange } from './killed-in-a-change.ts';

const mongo = await startMongo();

if ('url' in mongo) {
  testKilledInAChange({ test, mongo, kills: { between: 3, beside: 1 } });
} else {
  test('ingresses that are killed in a change of a MongoDB are skipped', (t) => {
    t.log(`TESTS AGAINST MONGODB ARE SKIPPED: ${mongo.reason}`);
    t.not(process.env.CI, 'true');
  });
}
