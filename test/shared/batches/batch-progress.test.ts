import test from 'ava';
import {
  type BatchProgress,
  type LineOutcome,
  linesPerSecond,
  noProgress,
  withOutcomes,
  withSample,
} from '../../../shared/batches/batch-progress.ts';

const outcome = (line: number, change: Partial<LineOutcome> = {}): LineOutcome => ({
  ...{ line, customId: `line ${line}`, model: 'small-chat', failed: false, status: 200, error: null },
  ...{ promptTokens: 10, cachedTokens: 1, completionTokens: 5 },
  ...change,
});
const refused = (line: number, code = 'VALIDATION_ERROR') =>
  outcome(line, { failed: true, error: { code, message: 'm' }, promptTokens: 0, cachedTokens: 0, completionTokens: 0 });

test('results are summed by model, failures by code, and the first ten of the file are kept', (t) => {
  const first = withOutcomes(noProgress, [outcome(3), outcome(1, { model: 'large-chat' }), refused(90)]);
  const failed = Array.from({ length: 20 }, (_, index) => refused(80 - index, 'UPSTREAMS_EXHAUSTED'));
  const status = outcome(4, { failed: true, status: 418, completionTokens: 0 });
  const next = withOutcomes(first, [outcome(2), ...failed, status]);
  t.is(next.lines, 25);
  t.deepEqual(next.tokens, [
    { model: 'small-chat', promptTokens: 30, cachedTokens: 3, completionTokens: 10 },
    { model: 'large-chat', promptTokens: 10, cachedTokens: 1, completionTokens: 5 },
  ]);
  t.deepEqual(next.errorCounts, { VALIDATION_ERROR: 1, UPSTREAMS_EXHAUSTED: 20, status_418: 1 });
  t.deepEqual(
    next.failures.map(({ line }) => line),
    [4, 61, 62, 63, 64, 65, 66, 67, 68, 69],
  );
  t.is(next.failures[0]?.code, 'status_418');
  t.deepEqual(noProgress.errorCounts, {});
});

test('what progress keeps is bounded, whatever a file has', (t) => {
  const many = Array.from({ length: 500 }, (_, index) =>
    outcome(index + 1, { model: `model ${index}`, failed: true, status: index, error: null }),
  );
  const wordy = outcome(501, { failed: true, error: { code: 'X', message: 'é'.repeat(10_000) } });
  const { tokens, errorCounts, failures } = withOutcomes(noProgress, [wordy, ...many]);
  t.is(tokens.length, 101);
  t.is(tokens.at(-1)?.model, 'other');
  t.is(Object.keys(errorCounts).length, 51);
  t.is(failures.length, 10);
  t.is(withOutcomes(noProgress, [wordy]).failures[0]?.message.length, 500);
});

const at = (seconds: number) => new Date(seconds * 1_000);

test('the rate is that of the last minute, or since the batch runs', (t) => {
  let progress: BatchProgress = noProgress;
  const rate = (seconds: number) => linesPerSecond(progress, { since: at(0), now: seconds * 1_000 });
  t.is(rate(0), undefined);
  for (let second = 1; second <= 300; second++) {
    const lines = second <= 200 ? [outcome(2 * second), outcome(2 * second + 1)] : [];
    progress = withSample(withOutcomes(progress, lines), at(second));
    if (second === 30) t.is(rate(30), 2);
    t.true(progress.samples.length <= 14);
  }
  t.is(progress.lines, 400);
  t.is(rate(300), 0, 'nothing has ended in the last minute');
});
