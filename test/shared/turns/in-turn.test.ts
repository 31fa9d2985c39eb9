import { setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import { createTurns } from '../../../shared/turns/in-turn.ts';

test('pieces run in their order, one in each turn of the event loop', async (t) => {
  const turns = createTurns({ isBusy: () => false });
  const ran: string[] = [];
  for (const name of ['a', 'b']) turns.run(() => ran.push(name));
  const third = turns.next().then(() => ran.push('c'));
  t.deepEqual(ran, []);
  await turn();
  t.deepEqual(ran, ['a']);
  await turn();
  t.deepEqual(ran, ['a', 'b']);
  await third;
  t.deepEqual(ran, ['a', 'b', 'c']);
});

test('while the loop is busy, each piece waits for a pause', async (t) => {
  let isBusy = true;
  const paused: (() => void)[] = [];
  const turns = createTurns({ isBusy: () => isBusy, pause: (then) => paused.push(then) });
  const ran: string[] = [];
  for (const name of ['a', 'b', 'c']) turns.run(() => ran.push(name));
  await turn();
  t.deepEqual([ran, paused.length], [[], 1]);
  paused.shift()?.();
  t.deepEqual([ran, paused.length], [['a'], 1]);
  isBusy = false;
  paused.shift()?.();
  t.deepEqual(ran, ['a', 'b']);
  await turn();
  t.deepEqual([ran, paused.length], [['a', 'b', 'c'], 0]);
});

test('a piece that is withdrawn does not run, and no other one runs in its turn and its own', async (t) => {
  const pauses: (() => void)[] = [];
  const { run } = createTurns({ isBusy: () => true, pause: (then) => void pauses.push(then) });
  const done: number[] = [];
  const withdraw = run(() => done.push(1));
  withdraw();
  run(() => done.push(2));
  run(() => done.push(3));
  t.is(pauses.length, 1, 'one pause at a time');
  pauses.shift()?.();
  t.deepEqual(done, [2]);
  pauses.shift()?.();
  t.deepEqual(done, [2, 3]);
  t.deepEqual(pauses, []);
});

test('while the loop is busy, the pause is 25 ms', async (t) => {
  const { next } = createTurns({ isBusy: () => true });
  const since = performance.now();
  await next();
  t.true(performance.now() - since >= 24, 'a timer may be up to 1 ms early');
});
