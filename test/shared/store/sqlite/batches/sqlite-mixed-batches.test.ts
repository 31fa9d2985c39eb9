import test from 'ava';
import { testMixedBatchesContract } from '../../batches-mixed-contract.ts';
import { createSqliteHome } from '../../sqlite-home.ts';

testMixedBatchesContract({ test: test.serial, createHome: createSqliteHome, keepsUnknownFields: false });
