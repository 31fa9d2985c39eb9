import test from 'ava';
import { openMongoTests } from '../../../../support/mongodb/mongo-tests.ts';
import { testMixedBatchesContract } from '../../batches-mixed-contract.ts';

const { mongoTestAlone, createHome } = await openMongoTests(test);

testMixedBatchesContract({ test: mongoTestAlone, createHome, keepsUnknownFields: true });
