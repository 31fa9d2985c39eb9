import test from 'ava';
import { testKilledInAChange } from './killed-in-a-change.ts';

testKilledInAChange({ test, kills: { between: 30, beside: 5 } });
