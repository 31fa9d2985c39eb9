import test from 'ava';
import { openMongoTests } from '../../support/mongodb/mongo-tests.ts';
import { testRoomOfAccounts } from './room-of-accounts.ts';

const { mongoTestAlone, createHome } = await openMongoTests(test);

testRoomOfAccounts({ test: mongoTestAlone, createHome });
