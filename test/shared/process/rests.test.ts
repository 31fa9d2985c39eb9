import test from 'ava';
import { createRests } from '../../../shared/process/rests.ts';
import { fakeClock } from '../../support/fake-clock.ts';

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
