import test from 'ava';
import { testApplyCodesContract } from '../apply-codes-contract.ts';
import { createSqliteHome } from '../sqlite-home.ts';
import { testTopUpCodesContract } from '../top-up-codes-contract.ts';

// Tests with many calls block this process, and would keep concurrent tests from releasing a lock in time.
testTopUpCodesContract({ test: test.serial, createHome: createSqliteHome });
testApplyCodesContract({ test: test.serial, createHome: createSqliteHome });
