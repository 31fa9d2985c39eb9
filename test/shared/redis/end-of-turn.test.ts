import { setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import { atEndOfTurn } from '../../../shared/redis/end-of-turn.ts';

test('what is written comes after all that is gathered, whichever asked first', async (t) => {
  const done: string[] = [];
  atEndOfTurn(() => done.push('write one'), 'write');
  atEndOfTurn(() => done.push('gather one'), 'gather');
  atEndOfTurn(() => done.push('write two'), 'write');
  atEndOfTurn(() => done.push('gather two'), 'gather');
  t.deepEqual(done, []);
  await turn();
  t.deepEqual(done, ['gather one', 'gather two', 'write one', 'write two']);
});

test('what a gathering task leaves to write is written in the same turn', async (t) => {
  const done: string[] = [];
  atEndOfTurn(() => atEndOfTurn(() => done.push('written'), 'write'), 'gather');
  await turn();
  t.deepEqual(done, ['written']);
});

test('what is asked for later is done in a later turn', async (t) => {
  const done: string[] = [];
  atEndOfTurn(() => atEndOfTurn(() => done.push('later'), 'gather'), 'write');
  await turn();
  await turn();
  t.deepEqual(done, ['later']);
});
