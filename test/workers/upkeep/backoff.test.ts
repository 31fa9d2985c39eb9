import test from 'ava';
import { createBackoff } from '../../../workers/upkeep/backoff.ts';

test('waits grow up to five seconds, with jitter, and end when the task works again', (t) => {
  let [time, lot] = [0, 0];
  const backoff = createBackoff<string>({ now: () => time, random: () => lot });
  t.false(backoff.waits('a'));
  for (const [fullMs, first] of [
    [100, true],
    [200, false],
    [400, false],
    [800, false],
    [1_600, false],
    [3_200, false],
    [5_000, false],
    [5_000, false],
  ] as const) {
    lot = 1 - lot;
    const waitMs = fullMs * (1 + lot) * 0.5;
    t.is(backoff.failed('a'), first);
    time += waitMs - 1;
    t.true(backoff.waits('a'));
    t.false(backoff.failed('a'), 'another failure during the wait does not extend it');
    time += 1;
    t.false(backoff.waits('a'), String(waitMs));
  }
  t.false(backoff.waits('b'), 'each task has its own backoff');
  t.true(backoff.succeeded('a'));
  t.false(backoff.succeeded('a'));
  t.true(backoff.failed('a'), 'and its next failure is the first again');
});

test('the first and the longest wait can be others, and a success begins with the first again', (t) => {
  let time = 0;
  const backoff = createBackoff<string>({ firstMs: 500, maxMs: 2_000, now: () => time, random: () => 1 });
  const waitOf = () => {
    backoff.failed('one');
    const begunAt = time;
    while (backoff.waits('one')) time += 1;
    return time - begunAt;
  };
  t.deepEqual([waitOf(), waitOf(), waitOf(), waitOf()], [500, 1_000, 2_000, 2_000]);
  backoff.succeeded('one');
  t.is(waitOf(), 500);
});

test('forgets all names except those to keep', (t) => {
  const backoff = createBackoff<string>();
  for (const name of ['one', 'other']) backoff.failed(name);
  backoff.keepOnly(new Set(['other']));
  t.deepEqual([backoff.waits('one'), backoff.waits('other')], [false, true]);
});
