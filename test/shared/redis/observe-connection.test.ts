import { setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import { atEndOfTurn } from '../../../shared/redis/observe-connection.ts';

test('writes run after all gather tasks, in any order of registration', async (t) => {
  const done: string[] = [];
  atEndOfTurn(() => done.push('write one'), 'write');
  atEndOfTurn(() => done.push('gather one'), 'gather');
  atEndOfTurn(() => done.push('write two'), 'write');
  atEndOfTurn(() => done.push('gather two'), 'gather');
  t.deepEqual(done, []);
  await turn();
  t.deepEqual(done, ['gather one', 'gather two', 'write one', 'write two']);
});

test('a write that a gather task adds runs in the same turn', async (t) => {
  const done: string[] = [];
  atEndOfTurn(() => atEndOfTurn(() => done.push('written'), 'write'), 'gather');
  await turn();
  t.deepEqual(done, ['written']);
});

test('a gather task that a write adds runs in a later turn', async (t) => {
  const done: string[] = [];
  atEndOfTurn(() => atEndOfTurn(() => done.push('later'), 'gather'), 'write');
  await turn();
  await turn();
  t.deepEqual(done, ['later']);
});
