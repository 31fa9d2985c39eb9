import test from 'ava';
import { openMongoTests } from '../../support/mongodb/mongo-tests.ts';
import { testReconcileContract } from './reconcile-contract.ts';
import { createMongoReconcileHome } from './reconcile-homes.ts';

const { mongo, mongoTest } = await openMongoTests(test);

testReconcileContract({ test: mongoTest, createHome: () => createMongoReconcileHome(mongo) });
