import test from 'ava';
import { openSqliteHome } from '../support/truth/store-homes.ts';
import { testTruthOfBatches } from './truth-batches.ts';

testTruthOfBatches({ test, lines: 2_000, openHome: openSqliteHome });
