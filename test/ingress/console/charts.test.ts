import test from 'ava';
import { outcomeSeries, rankedSeries, stepAt, stepsBetween, sumsBy } from '../../../ingress/console/charts/steps.ts';
import { lineWords } from '../../../ingress/console/charts/tile.ts';
import type { UsageRow } from '../../../ingress/usage/usage-report.ts';

const seconds = (time: string) => Date.parse(time) / 1_000;
const counts = {
  ...{ requests: 0, failed: 0, cancelled: 0, promptTokens: 0, cachedTokens: 0 },
  ...{ completionTokens: 0, chargedTokens: 0, overageTokens: 0 },
};
const hours = stepsBetween(seconds('2026-11-30T05:10:00Z'), seconds('2026-11-30T07:20:00Z'), 3_600);

test('steps are whole hours or days, over the end of a month', (t) => {
  t.is(stepAt(seconds('2026-11-30T07:59:59Z'), 3_600), seconds('2026-11-30T07:00:00Z'));
  t.deepEqual(
    hours.times,
    ['05', '06', '07'].map((hour) => seconds(`2026-11-30T${hour}:00:00Z`)),
  );
  const days = stepsBetween(seconds('2026-11-30T23:00:00Z'), seconds('2026-12-01T01:00:00Z'), 86_400);
  t.deepEqual(days.times, [seconds('2026-11-30'), seconds('2026-12-01')]);
});

test('rows of hours and of days are summed by step, a step without rows is 0', (t) => {
  const rows: UsageRow[] = [
    { ...counts, hour: '2026-11-30T05:00:00Z', requests: 2 },
    { ...counts, hour: '2026-11-30T05:00:00Z', requests: 3 },
    { ...counts, hour: '2026-11-30T09:00:00Z', requests: 9 },
  ];
  t.deepEqual(
    sumsBy(rows, hours, ({ requests }) => requests),
    [5, 0, 0],
  );
});

test('the same words and ranking stand for the same data: outcomes, and six series at most', (t) => {
  const hour = '2026-11-30T06:00:00Z';
  const ended = [{ ...counts, hour, requests: 9, failed: 2, cancelled: 1, refused: 4 }];
  t.deepEqual(
    outcomeSeries(ended, hours).map(({ name, values }) => [name, values[1]]),
    [
      ['completed', 6],
      ['cancelled', 1],
      ['refused', 4],
      ['failed', 2],
    ],
  );
  const models = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ ...counts, hour, model: `m${index}`, requests: index + 1 }));
  const ranking = { nameOf: ({ model = '' }: UsageRow) => model, amountOf: ({ requests }: UsageRow) => requests };
  const names = (count: number) => rankedSeries(models(count), hours, ranking).map(({ name }) => name);
  t.deepEqual(names(6), ['m5', 'm4', 'm3', 'm2', 'm1', 'm0']);
  t.deepEqual(names(8), ['m7', 'm6', 'm5', 'm4', 'm3', 'others']);
});

test('a line without an axis says its range, its unit, and its lowest, highest and latest value', (t) => {
  const line = { label: 'Requests of the last 24 hours, each hour', format: (value: number) => `${value} requests` };
  t.is(
    lineWords({ ...line, values: [3, null, 7, 5] }),
    'Requests of the last 24 hours, each hour: lowest 3 requests, highest 7 requests, latest 5 requests',
  );
  t.is(lineWords({ ...line, values: [null] }), 'Requests of the last 24 hours, each hour: no value');
});
