import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { skipTest } from '../support/skip-test.ts';
import { testRouteStatuses } from './route-statuses.ts';

const mongo = await startMongo();

if ('url' in mongo) {
  testRouteStatuses({ test, mongo });
} else {
  skipTest(test, { title: 'the answers of each route on MongoDB', reason: mongo.reason });
}
