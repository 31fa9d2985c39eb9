import test from 'ava';
import { sized } from '../support/size.ts';
import { testKilledInAChange } from './killed-in-a-change.ts';

testKilledInAChange({ test, kills: sized(1) });
