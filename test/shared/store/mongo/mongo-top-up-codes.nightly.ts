import test from 'ava';
import { openMongoTests } from '../../../support/mongodb/mongo-tests.ts';
import { testApplyCodesContract } from '../apply-codes-contract.ts';
import { testTopUpCodesContract } from '../top-up-codes-contract.ts';

const { mongoTestAlone, createHome } = await openMongoTests(test);

testTopUpCodesContract({ test: mongoTestAlone, createHome });
testApplyCodesContract({ test: mongoTestAlone, createHome });
