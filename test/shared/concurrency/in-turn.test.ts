import { setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import { createBusyLoop, createRests, createTurns, turnsBusyFrom } from '../../../shared/concurrency/in-turn.ts';
import { fakeClock } from '../../support/fake-clock.ts';

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

test('for turns a loop is busy if it was working for 30% of the time since the last look, ten times a second', (t) => {
  const loop = { now: 0, utilization: 1, looks: 0 };
  const isBusy = createBusyLoop(turnsBusyFrom, {
    now: () => loop.now,
    utilization: () => {
      loop.looks++;
      return loop.utilization;
    },
  });
  t.false(isBusy(), 'nothing was seen yet');
  loop.now = 100;
  loop.utilization = 0.3;
  t.true(isBusy());
  loop.now = 199;
  loop.utilization = 0.29;
  t.true(isBusy());
  t.is(loop.looks, 1);
  loop.now = 200;
  t.false(isBusy());
});

test('the loop of this process is busy after it was blocked', async (t) => {
  const isBusy = createBusyLoop(0.5);
  const end = performance.now() + 150;
  while (performance.now() < end);
  await new Promise(setImmediate);
  t.true(isBusy());
});

function start() {
  const clock = fakeClock();
  const wait = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve));
  const rest = createRests({ restsPerWork: 3, restMsMax: 1_000, wait });
  const done: number[] = [];
  return { clock, done, work: (ms: number) => rest(ms).then(() => done.push(clock.now())) };
}

test('the rest is three times as long as the work', async (t) => {
  const { clock, done, work } = start();
  void work(10);
  await clock.advance(100);
  t.deepEqual(done, [30]);
  void work(20);
  await clock.advance(100);
  t.deepEqual(done, [30, 160]);
});

test('concurrent rests share the time in proportion to the cost of each task', async (t) => {
  const { clock, done, work } = start();
  for (const ms of [30, 30, 3]) void work(ms);
  await clock.advance(5_000);
  t.deepEqual(done, [27, 90, 180], 'the cheapest task rests for the shortest time');
  void work(10);
  await clock.advance(100);
  t.is(done.at(-1), 5_030, 'finished rests no longer count');
});

test('a long task rests longer than several short ones', async (t) => {
  const { clock, done, work } = start();
  void work(60);
  await clock.advance(1_000);
  t.deepEqual(done, [360]);
});

test('no rest is longer than the bound', async (t) => {
  const { clock, done, work } = start();
  void work(1_000);
  await clock.advance(5_000);
  t.deepEqual(done, [1_000]);
});
