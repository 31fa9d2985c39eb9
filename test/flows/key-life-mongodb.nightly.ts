import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { skipTest } from '../support/skip-test.ts';
import { testKeyLife } from './key-life.ts';

const mongo = await startMongo();

if ('url' in mongo) {
  testKeyLife({ test, mongo });
} else {
  skipTest(test, { title: 'the life of keys on MongoDB', reason: mongo.reason });
}
