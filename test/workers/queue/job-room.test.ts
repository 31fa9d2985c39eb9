import test from 'ava';
import { createLinePace } from '../../../workers/queue/job-room.ts';

function openPace() {
  const loop = { now: 0, utilization: 0 };
  const pace = createLinePace({ now: () => loop.now, utilization: () => loop.utilization });
  return { loop, pace };
}

test('lines begin at once in a worker that is not busy, and in one that no client uses', (t) => {
  const { loop, pace } = openPace();
  pace.note('interactive');
  pace.note('batch');
  t.true(pace.isDue(), 'it is not busy');
  loop.now = 250;
  loop.utilization = 0.49;
  t.true(pace.isDue());
  loop.now = 5_001;
  loop.utilization = 1;
  pace.note('batch');
  t.true(pace.isDue(), 'the last request was taken more than five seconds ago');
});

test('while clients use a busy worker, a line begins every 250 ms', (t) => {
  const { loop, pace } = openPace();
  loop.now = 1_000;
  loop.utilization = 0.5;
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
  loop.now = 1_400;
  loop.utilization = 0;
  t.false(pace.isDue(), 'its utilization is read four times a second');
  loop.now = 1_500;
  pace.note('batch');
  t.true(pace.isDue(), 'it has time again');
});
