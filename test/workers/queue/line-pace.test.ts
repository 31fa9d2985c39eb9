import test from 'ava';
import { createLinePace } from '../../../workers/queue/line-pace.ts';

function openPace() {
  const loop = { now: 0, isBusy: false };
  const pace = createLinePace({ now: () => loop.now, isBusy: () => loop.isBusy });
  return { loop, pace };
}

test('lines begin at once in a worker that is not busy, and in one that no client uses', (t) => {
  const { loop, pace } = openPace();
  pace.noteTaking('interactive');
  pace.noteTaking('batch');
  t.true(pace.isDue(), 'it is not busy');
  loop.now = 250;
  t.true(pace.isDue());
  loop.now = 5_001;
  loop.isBusy = true;
  pace.noteTaking('batch');
  t.true(pace.isDue(), 'the last request was taken more than five seconds ago');
});

test('while clients use a busy worker, a line begins every 250 ms', (t) => {
  const { loop, pace } = openPace();
  loop.now = 1_000;
  loop.isBusy = true;
  pace.noteTaking('interactive');
  t.true(pace.isDue());
  pace.noteTaking('batch');
  t.false(pace.isDue());
  loop.now = 1_249;
  t.false(pace.isDue());
  loop.now = 1_250;
  t.true(pace.isDue());
  pace.noteTaking('batch');
  t.false(pace.isDue());
  loop.isBusy = false;
  t.true(pace.isDue(), 'it has time again');
});

test('while clients use a worker, the answers of its lines are paced at 2 MiB a second', (t) => {
  const { loop, pace } = openPace();
  pace.noteTaking('interactive');
  pace.noteAnswer(2_097_152);
  t.false(pace.isDue());
  loop.now = 1_023;
  t.false(pace.isDue());
  loop.now = 1_024;
  t.true(pace.isDue());
  pace.noteAnswer(1_048_576);
  pace.noteAnswer(1_048_576);
  loop.now = 2_047;
  t.false(pace.isDue(), 'answers that came together rest one after the other');
  loop.now = 2_048;
  t.true(pace.isDue());
  loop.now = 4_000;
  pace.noteAnswer(104_857_600);
  loop.now = 5_001;
  t.true(pace.isDue(), 'no client has sent a request for five seconds');
});

test('small answers of lines leave no measurable rest', (t) => {
  const { loop, pace } = openPace();
  pace.noteTaking('interactive');
  for (let line = 0; line < 10; line++) pace.noteAnswer(2_000);
  loop.now = 10;
  t.true(pace.isDue(), 'a thousand such lines a second begin');
});
