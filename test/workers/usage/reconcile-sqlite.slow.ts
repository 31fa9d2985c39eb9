import test from 'ava';
import { testReconcileContract } from './reconcile-contract.ts';
import { createSqliteReconcileHome } from './reconcile-homes.ts';

testReconcileContract({ test, createHome: createSqliteReconcileHome });
