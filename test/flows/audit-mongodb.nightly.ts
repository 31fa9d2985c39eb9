import test from 'ava';
import { startMongo } from '../support/mongodb/start-mongo.ts';
import { skipTest } from '../support/skip-test.ts';
import { testAudit } from './audit.ts';

const mongo = await startMongo();

if ('url' in mongo) {
  testAudit({ test, mongo });
} else {
  skipTest(test, { title: 'the audit trail on MongoDB', reason: mongo.reason });
}
