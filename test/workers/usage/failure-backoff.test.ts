import test from 'ava';
import { createFailureBackoff } from '../../../workers/upkeep/repeat-task.ts';

test('waits grow up to five seconds, with jitter, and end when the task works again', (t) => {
  let [time, lot] = [0, 0];
  const backoff = createFailureBackoff<string>({ now: () => time, random: () => lot });
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
  t.true(backoff.worked('a'));
  t.false(backoff.worked('a'));
  t.true(backoff.failed('a'), 'and its next failure is the first again');
});
