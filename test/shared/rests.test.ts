import test from 'ava';
import { createRests } from '../../shared/rests.ts';
import { fakeClock } from '../support/fake-clock.ts';

function start() {
  const clock = fakeClock();
  const wait = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve));
  const rest = createRests({ restsPerWork: 3, restMsMax: 1_000, now: clock.now, wait });
  const done: number[] = [];
  return { clock, done, work: (ms: number) => rest(ms).then(() => done.push(clock.now())) };
}

test('work rests for three times as long as it took', async (t) => {
  const { clock, done, work } = start();
  void work(10);
  await clock.advance(100);
  t.deepEqual(done, [30]);
  void work(20);
  await clock.advance(100);
  t.deepEqual(done, [30, 160]);
});

test('pieces that are done at the same time rest one after another, and none for longer than a bound', async (t) => {
  const { clock, done, work } = start();
  for (const ms of [10, 10, 20, 1_000]) void work(ms);
  await clock.advance(5_000);
  t.deepEqual(done, [30, 60, 120, 1_000]);
});
