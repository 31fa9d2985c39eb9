import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { testKeyLife } from './key-life.ts';

const mongo = await startMongo();

if ('url' in mongo) {
  testKeyLife({ test, mongo });
} else {
  test('the life of keys on MongoDB is skipped', (t) => {
    t.log(`TESTS AGAINST MONGODB ARE SKIPPED: ${mongo.reason}`);
    t.not(process.env.CI, 'true');
  });
}
