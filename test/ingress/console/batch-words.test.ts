import test from 'ava';
import { type isMoving, progressWords } from '../../../ingress/console/batches/batch-words.ts';

const counts = (total: number, completed: number, failed: number) => ({ total, completed, failed });

test('progress is in lines while a batch runs, and says what became of them when it has ended', (t) => {
  const words = (status: Parameters<typeof isMoving>[0]['status'], lines: ReturnType<typeof counts>, errors?: object) =>
    progressWords({ status, request_counts: lines, error_counts: errors === undefined ? null : { ...errors } });
  t.is(words('validating', counts(0, 0, 0)), 'validating lines');
  t.is(words('cancelling', counts(0, 0, 0)), 'validating lines');
  t.is(words('in_progress', counts(2_000, 1_199, 1)), '1,200 of 2,000 lines, 1 failed');
  t.is(words('finalizing', counts(200, 200, 0)), '200 of 200 lines');
  t.is(words('completed', counts(200, 197, 3), { VALIDATION_ERROR: 3 }), '197 done · 3 failed');
  t.is(words('completed', counts(200, 200, 0), {}), '200 done');
  t.is(words('cancelled', counts(200, 40, 160), { batch_cancelled: 160 }), '40 done · 160 cancelled');
  t.is(words('expired', counts(9, 1, 8), { batch_expired: 7, status_500: 1 }), '1 done · 7 expired · 1 failed');
  t.is(words('failed', counts(0, 0, 0)), '');
});
