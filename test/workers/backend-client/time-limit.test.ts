import { mock } from 'node:test';
import test from 'ava';
import { createTimeLimit } from '../../../workers/backend-client/time-limit.ts';

test.before(() => mock.timers.enable({ apis: ['setTimeout', 'setImmediate', 'Date'] }));
test.after.always(() => mock.timers.reset());

function opened() {
  const late: string[] = [];
  const timeLimit = createTimeLimit(Date.now);
  return { late, timeLimit, expect: (ms: number, name: string) => timeLimit.expectWithin(ms, () => late.push(name)) };
}

test.serial('calls back once when the time is over, and not before', (t) => {
  const { late, timeLimit, expect } = opened();
  using _ = timeLimit;
  expect(100, 'first');
  mock.timers.tick(99);
  t.deepEqual(late, []);
  mock.timers.tick(1);
  t.deepEqual(late, ['first']);
  mock.timers.tick(1_000);
  t.deepEqual(late, ['first']);
});

test.serial('only the latest limit counts, also if it is earlier', (t) => {
  for (const [second, left] of [
    [200, 200],
    [50, 50],
  ] as const) {
    const { late, timeLimit, expect } = opened();
    using _ = timeLimit;
    expect(100, 'first');
    mock.timers.tick(10);
    expect(second, 'second');
    mock.timers.tick(left - 1);
    t.deepEqual(late, []);
    mock.timers.tick(1);
    t.deepEqual(late, ['second']);
  }
});

test.serial('does not call back while relaxed, and does when a limit is set again', (t) => {
  const { late, timeLimit, expect } = opened();
  using _ = timeLimit;
  expect(100, 'first');
  timeLimit.relax();
  mock.timers.tick(1_000);
  t.deepEqual(late, []);
  expect(100, 'second');
  mock.timers.tick(100);
  t.deepEqual(late, ['second']);
});

test.serial('time does not count while it is suspended, also for limits that are set meanwhile', (t) => {
  const { late, timeLimit, expect } = opened();
  using _ = timeLimit;
  expect(100, 'first');
  mock.timers.tick(60);
  timeLimit.suspend();
  timeLimit.suspend();
  mock.timers.tick(1_000);
  t.deepEqual(late, []);
  timeLimit.resume();
  t.is(timeLimit.suspendedMs(), 1_000);
  mock.timers.tick(39);
  t.deepEqual(late, []);
  mock.timers.tick(1);
  t.deepEqual(late, ['first']);
  timeLimit.suspend();
  expect(100, 'second');
  mock.timers.tick(1_000);
  timeLimit.resume();
  mock.timers.tick(99);
  t.deepEqual(late, ['first']);
  mock.timers.tick(1);
  t.deepEqual(late, ['first', 'second']);
});

test.serial('does not call back after it was disposed of', (t) => {
  const { late, timeLimit, expect } = opened();
  expect(100, 'first');
  timeLimit[Symbol.dispose]();
  mock.timers.tick(1_000);
  t.deepEqual(late, []);
});
