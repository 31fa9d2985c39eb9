import test from 'ava';
import { createTroubles } from '../../../workers/usage/failure-backoff.ts';

test('waits grow up to five seconds, with jitter, and end where it works again', (t) => {
  let [time, lot] = [0, 0];
  const troubles = createTroubles<string>({ now: () => time, random: () => lot });
  t.false(troubles.waits('a'));
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
    t.is(troubles.failed('a'), first);
    time += waitMs - 1;
    t.true(troubles.waits('a'));
    t.false(troubles.failed('a'), 'one more failure meanwhile makes it no longer');
    time += 1;
    t.false(troubles.waits('a'), String(waitMs));
  }
  t.false(troubles.waits('b'), 'each by itself');
  t.true(troubles.worked('a'));
  t.false(troubles.worked('a'));
  t.true(troubles.failed('a'), 'and is news again');
});
