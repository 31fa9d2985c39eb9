import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { sized } from '../support/size.ts';
import { skipTest } from '../support/skip-test.ts';
import { testKilledInAChange } from './killed-in-a-change.ts';

const mongo = await startMongo();

if ('url' in mongo) {
  testKilledInAChange({ test, mongo, kills: sized(1) });
} else {
  skipTest(test, { title: 'ingresses that are killed during a change in MongoDB', reason: mongo.reason });
}
