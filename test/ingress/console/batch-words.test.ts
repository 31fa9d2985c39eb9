import test from 'ava';
import { failedLines, type isMoving, progressWords, unrunLines } from '../../../ingress/console/batches/batch-words.ts';

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

test('while it runs, progress has its rate and the time left, as far as they are known', (t) => {
  const words = (lines_per_second: number | null, seconds_left: number | null) =>
    progressWords({
      status: 'in_progress',
      request_counts: counts(200, 48, 0),
      progress: { lines_per_second, seconds_left },
    });
  t.is(words(12.34, 13), '48 of 200 lines · 12 lines/s · about 13 s left');
  t.is(words(4.25, 36), '48 of 200 lines · 4.3 lines/s · about 36 s left');
  t.is(words(0.05, 3_040), '48 of 200 lines · 3 lines/min · about 50 min 40 s left');
  t.is(words(0, null), '48 of 200 lines · 0 lines/s');
  t.is(words(null, null), '48 of 200 lines');
});

test('of an ended batch, lines that failed and lines that did not run are counted apart', (t) => {
  const error_counts = { batch_cancelled: 100, VALIDATION_ERROR: 2, status_500: 1 };
  const batch = { status: 'cancelled', request_counts: counts(200, 97, 103), error_counts } as const;
  t.is(failedLines(batch), 3);
  t.is(unrunLines(batch), 100);
});
