import test from 'ava';
import { createSqliteHome } from '../sqlite-home.ts';
import { testUsageContract } from '../usage-contract.ts';
import { testUsageRacesContract } from '../usage-races-contract.ts';

testUsageContract({ test, createHome: createSqliteHome });
testUsageRacesContract({ test: test.serial, createHome: createSqliteHome });
