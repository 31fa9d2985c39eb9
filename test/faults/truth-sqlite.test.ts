import test from 'ava';
import { openSqliteHome } from '../support/truth/store-homes.ts';
import { testTruth } from './truth.ts';

testTruth({ test, requests: 2_000, openHome: openSqliteHome });
