import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { testRouteStatuses } from './route-statuses.ts';

const mongo = await startMongo();

if ('url' in mongo) {
  testRouteStatuses({ test, mongo });
} else {
  test('the answers of each route on MongoDB are skipped', (t) => {
    t.log(`TESTS AGAINST MONGODB ARE SKIPPED: ${mongo.reason}`);
    t.not(process.env.CI, 'true');
  });
}
