import test from 'ava';
import { sized } from '../support/size.ts';
import { testKilledInAChange } from './killed-in-a-change.ts';

testKilledInAChange({ test, kills: { between: sized(1, 6), beside: sized(1, 3) } });
