import test from 'ava';
import { createLinePace, type LinePace } from '../../../workers/queue/line-pace.ts';

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

const megabyte = 1_048_576;

/** A line of this account from its beginning to its end, with an answer of so many bytes. Returns for how long it has to pause instead. */
function line(pace: LinePace, account: string, bytes: number): number {
  using turn = pace.begin(account);
  if (turn.pauseMs === 0) turn.received(bytes);
  return Math.round(turn.pauseMs);
}

test('while clients use a worker, answers of the lines of one account are paced at 2 MiB a second', (t) => {
  const { loop, pace } = openPace();
  pace.noteTaking('interactive');
  t.is(line(pace, 'user:alice', 4 * megabyte), 0);
  t.is(line(pace, 'user:alice', megabyte), 4_000, 'the answer of 2 s, and the same again for this line');
  t.is(line(pace, 'user:alice', megabyte), 6_000, 'the next one comes back after it');
  t.is(line(pace, 'user:bob', megabyte), 0, 'another account has its own pace');
  loop.now = 1_750;
  t.is(line(pace, 'user:alice', 0), 0, 'a quarter of a second ahead is allowed');
});

test('lines that begin at once count as much as the last answer, until theirs has come', (t) => {
  const { loop, pace } = openPace();
  pace.noteTaking('interactive');
  line(pace, 'user:alice', megabyte);
  loop.now = 500;
  const turn = pace.begin('user:alice');
  t.is(turn.pauseMs, 0);
  t.true(line(pace, 'user:alice', megabyte) > 0, 'the other one has not received anything yet');
  turn[Symbol.dispose]();
  t.is(line(pace, 'user:alice', megabyte), 0, 'it received nothing');
});

test('without clients nothing is paced, and nothing is left to pay when they come back', (t) => {
  const { loop, pace } = openPace();
  for (let lines = 0; lines < 100; lines++) t.is(line(pace, 'user:alice', 16 * megabyte), 0);
  pace.noteTaking('interactive');
  t.is(line(pace, 'user:alice', 16 * megabyte), 0);
  t.true(line(pace, 'user:alice', 16 * megabyte) > 8_000);
  loop.now = 5_001;
  t.is(line(pace, 'user:alice', 16 * megabyte), 0, 'the last request was taken more than five seconds ago');
  pace.noteTaking('interactive');
  t.is(line(pace, 'user:alice', 16 * megabyte), 0);
});

test('small answers are not paced, and no line pauses for longer than 15 s', (t) => {
  const { pace } = openPace();
  pace.noteTaking('interactive');
  for (let lines = 0; lines < 200; lines++) t.is(line(pace, 'user:alice', 2_000), 0);
  line(pace, 'user:bob', 64 * megabyte);
  for (let lines = 0; lines < 3; lines++) t.is(line(pace, 'user:bob', megabyte), 15_000);
});

test('an account with a line that runs is not forgotten, however many others have had lines since', (t) => {
  const { pace } = openPace();
  pace.noteTaking('interactive');
  const turn = pace.begin('user:alice');
  for (let others = 0; others < 2_000; others++) line(pace, `user:${others}`, 0);
  turn.received(4 * megabyte);
  turn[Symbol.dispose]();
  t.is(line(pace, 'user:alice', 0), 4_000, 'its answer of 2 s is paid, and the same again for this line');
});
