import test from 'ava';
import { chartOf } from '../../../ingress/console/usage/chart-of.ts';
import type { UsageRow } from '../../../ingress/usage/usage-report.ts';

const none = { failed: 0, cancelled: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0, overageTokens: 0 };
const november = { start: '2026-11-01', end: '2026-11-30' };
const used = (day: string, model: string, requests: number, chargedTokens = 0): UsageRow => ({
  ...none,
  day,
  model,
  requests,
  chargedTokens,
});

test('every day of the range is charted, and the segments of a day add up', (t) => {
  const days = [used('2028-02-03', 'a', 5), used('2028-02-03', 'b', 7), used('2028-02-29', 'a', 1)];
  const chart = chartOf({ range: { start: '2028-02-01', end: '2028-02-29' }, rows: days, measure: 'requests' });
  t.is(chart.days.length, 29);
  t.deepEqual(chart.days[2], {
    day: '2028-02-03',
    total: 12,
    parts: [
      { model: 'b', from: 0, to: 7, series: 0 },
      { model: 'a', from: 7, to: 12, series: 1 },
    ],
  });
  t.is(chart.days[28]?.total, 1);
  t.true(chart.max >= 12);
});

test('the axis has round steps that just reach the largest day', (t) => {
  for (const most of [0, 1, 3, 4, 7, 12, 99, 100, 101, 24_999, 1_000_000, 123_456_789]) {
    const { ticks, max } = chartOf({ range: november, rows: [used('2026-11-01', 'a', most)], measure: 'requests' });
    const [first, second = 0, ...rest] = ticks;
    t.is(first, 0, String(most));
    t.true(Number.isInteger(second) && second > 0, String(most));
    t.true(max >= most && max - second < Math.max(most, 1), String(most));
    t.true(rest.length <= 5, `${most}: ${ticks.join(' ')}`);
  }
});

test('the least used models beyond the sixth share one series', (t) => {
  const days = Array.from({ length: 9 }, (_, index) => used('2026-11-01', `model-${index}`, 1, (index + 1) * 10));
  const { series, days: charted } = chartOf({ range: november, rows: days, measure: 'chargedTokens' });
  t.deepEqual(
    series.map(({ model }) => model),
    ['model-8', 'model-7', 'model-6', 'model-5', 'model-4', 'other models'],
  );
  t.is(charted[0]?.total, 450);
  t.deepEqual(charted[0]?.parts.at(-1), { model: 'other models', from: 350, to: 450, series: 5 });
});

test('rows of several keys of a day add up, and rows that are not by model are one series', (t) => {
  const rows = [used('2026-11-01', 'a', 5), used('2026-11-01', 'a', 7)];
  const range = { start: '2026-10-31', end: '2026-11-01' };
  const { days, series } = chartOf({ range, rows: rows.map(({ model: _, ...row }) => row), measure: 'requests' });
  t.deepEqual(series, [{ model: 'all models', series: 0 }]);
  t.deepEqual(
    days.map(({ day, total }) => [day, total]),
    [
      ['2026-10-31', 0],
      ['2026-11-01', 12],
    ],
  );
});
