import test from 'ava';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { testRoomOfAccounts } from './room-of-accounts.ts';

// Tests with many calls block this process, and would keep others waiting.
testRoomOfAccounts({ test: test.serial, createHome: createSqliteHome });
