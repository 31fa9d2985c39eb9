import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { sized } from '../support/size.ts';
import { skipTest } from '../support/skip-test.ts';
import { testTopUpsKilled } from './top-ups-killed.ts';

const mongo = await startMongo();

if ('url' in mongo) {
  testTopUpsKilled({ test, mongo, kills: { atPoints: sized(3), atAnyMoment: sized(20) } });
} else {
  skipTest(test, { title: 'ingresses that are killed while they redeem codes, with MongoDB', reason: mongo.reason });
}
