import test from 'ava';
import { openMongoTests } from '../../support/mongodb/mongo-tests.ts';
import { testFilesOfKeys } from './files-of-keys.ts';

const { mongoTest, createHome } = await openMongoTests(test);

testFilesOfKeys({ test: mongoTest, createHome });
