import test from 'ava';
import { testKeyLife } from './key-life.ts';

testKeyLife({ test });
