import test from 'ava';
import { createRecentOutcomes } from '../../../workers/backends/backend-health.ts';

test('outcomes of about the last minute are counted, and older ones are forgotten', (t) => {
  let now = 5_000;
  const outcomes = createRecentOutcomes(() => now);
  t.deepEqual(outcomes.sum(), { answered: 0, failed: 0 });
  outcomes.note('answered');
  now = 30_000;
  outcomes.note('answered');
  outcomes.note('failed');
  t.deepEqual(outcomes.sum(), { answered: 2, failed: 1 });
  now = 59_999;
  t.deepEqual(outcomes.sum(), { answered: 2, failed: 1 });
  now = 60_000;
  t.deepEqual(outcomes.sum(), { answered: 1, failed: 1 });
  now = 89_999;
  t.deepEqual(outcomes.sum(), { answered: 1, failed: 1 });
  now = 90_000;
  t.deepEqual(outcomes.sum(), { answered: 0, failed: 0 });
});
