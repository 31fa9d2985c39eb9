import { once } from 'node:events';
import { mock } from 'node:test';
import test from 'ava';
import { createTimeLimit, createWatchdog } from '../../../workers/backend-client/exchange.ts';

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

const never = new AbortController().signal;

test.serial('aborts with the reason when the time is over, and not before', (t) => {
  using watchdog = createWatchdog([never], Date.now);
  watchdog.expectWithin(100, () => 'late');
  mock.timers.tick(99);
  t.false(watchdog.signal.aborted);
  mock.timers.tick(1);
  t.true(watchdog.signal.aborted);
  t.is(watchdog.signal.reason, 'late');
});

test.serial('only the latest limit counts', (t) => {
  using watchdog = createWatchdog([never], Date.now);
  watchdog.expectWithin(100, () => 'first');
  mock.timers.tick(60);
  watchdog.expectWithin(100, () => 'second');
  mock.timers.tick(99);
  t.false(watchdog.signal.aborted);
  mock.timers.tick(1);
  t.is(watchdog.signal.reason, 'second');
});

test.serial("aborts with its parent at once, with the parent's reason, and keeps that reason", async (t) => {
  const parent = new AbortController();
  using watchdog = createWatchdog([parent.signal], Date.now);
  watchdog.expectWithin(100, () => 'late');
  const aborted = once(watchdog.signal, 'abort');
  parent.abort('cancelled');
  await aborted;
  mock.timers.tick(1_000);
  t.is(watchdog.signal.reason, 'cancelled');
});

test.serial('is aborted from the start if one of its parents is', (t) => {
  using watchdog = createWatchdog([never, AbortSignal.abort('shutdown')]);
  t.is(watchdog.signal.reason, 'shutdown');
});

test.serial('does nothing after it was disposed of, by time or by parent', (t) => {
  const parent = new AbortController();
  const watchdog = createWatchdog([parent.signal], Date.now);
  watchdog.expectWithin(100, () => 'late');
  watchdog[Symbol.dispose]();
  mock.timers.tick(1_000);
  parent.abort('cancelled');
  t.false(watchdog.signal.aborted);
});

test.serial('a time that is already over aborts at once, without a warning of Node', async (t) => {
  mock.timers.reset();
  const warnings: Error[] = [];
  process.on('warning', (warning) => warnings.push(warning));
  using watchdog = createWatchdog([never]);
  watchdog.expectWithin(-5, () => 'late');
  await once(watchdog.signal, 'abort');
  await new Promise(setImmediate);
  t.is(watchdog.signal.reason, 'late');
  t.deepEqual(warnings, []);
});
