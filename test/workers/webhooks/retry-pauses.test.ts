import test from 'ava';
import { failingMsMax, pauseAfter } from '../../../workers/webhooks/after-attempt.ts';

test('pauses grow to 14 hours, and are at random below their bound', (t) => {
  const longest = Array.from({ length: 12 }, (_, index) => pauseAfter({ failures: index + 1, random: () => 1 }));
  const [minute, hour] = [60_000, 3_600_000];
  const bounds = [5_000, minute, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour];
  t.deepEqual(longest, [...bounds, ...Array(4).fill(14 * hour)]);
  t.is(pauseAfter({ failures: 2, random: () => 0.5 }), 30_000);
  t.is(pauseAfter({ failures: 9, random: () => 0 }), 1_000, 'never without a pause');
});

test('a receiver can ask for a longer pause, up to an hour', (t) => {
  const after = (retryAfterMs: number, failures = 2) => pauseAfter({ failures, retryAfterMs, random: () => 1 });
  t.is(after(59_000), 60_000);
  t.is(after(61_000), 61_000);
  t.is(after(3_600_000), 3_600_000);
  t.is(after(999_000_000), 3_600_000);
});

test('with the longest pauses, there are at least ten attempts in three days', (t) => {
  let [at, attempts] = [0, 1];
  while (at < failingMsMax) {
    at += pauseAfter({ failures: attempts, random: () => 1 });
    attempts += 1;
  }
  t.is(failingMsMax, 3 * 86_400_000);
  t.true(attempts >= 10);
});
