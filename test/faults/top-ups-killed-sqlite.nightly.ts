import test from 'ava';
import { sized } from '../support/size.ts';
import { testTopUpsKilled } from './top-ups-killed.ts';

testTopUpsKilled({ test, kills: { atPoints: 1, atAnyMoment: sized(3, 10) } });
