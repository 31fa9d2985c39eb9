import test from 'ava';
import { createLinePace } from '../../../workers/queue/job-room.ts';

function openPace() {
  const loop = { now: 0, isBusy: false };
  const pace = createLinePace({ now: () => loop.now, isBusy: () => loop.isBusy });
  return { loop, pace };
}

test('lines begin at once in a worker that is not busy, and in one that no client uses', (t) => {
  const { loop, pace } = openPace();
  pace.note('interactive');
  pace.note('batch');
  t.true(pace.isDue(), 'it is not busy');
  loop.now = 250;
  t.true(pace.isDue());
  loop.now = 5_001;
  loop.isBusy = true;
  pace.note('batch');
  t.true(pace.isDue(), 'the last request was taken more than five seconds ago');
});

test('while clients use a busy worker, a line begins every 250 ms', (t) => {
  const { loop, pace } = openPace();
  loop.now = 1_000;
  loop.isBusy = true;
  pace.note('interactive');
  t.true(pace.isDue());
  pace.note('batch');
  t.false(pace.isDue());
  loop.now = 1_249;
  t.false(pace.isDue());
  loop.now = 1_250;
  t.true(pace.isDue());
  pace.note('batch');
  t.false(pace.isDue());
  loop.isBusy = false;
  t.true(pace.isDue(), 'it has time again');
});
