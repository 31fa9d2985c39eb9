import test from 'ava';
import { startMongo } from '../../support/mongodb/start-mongo.ts';
import { testReconcileContract } from './reconcile-contract.ts';
import { createMongoReconcileHome } from './reconcile-homes.ts';

const mongo = await startMongo();
const mongoTest = 'url' in mongo ? test : test.skip;

test.after.always(async () => {
  if ('url' in mongo) await mongo[Symbol.asyncDispose]();
});

testReconcileContract({ test: mongoTest, createHome: () => createMongoReconcileHome(mongo) });
