import test from 'ava';
import { partSeries } from '../../../ingress/console/usage/usage-series.ts';
import type { UsageRow } from '../../../ingress/usage/usage-report.ts';

const none = { failed: 0, cancelled: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0, overageTokens: 0 };
const used = (row: Partial<UsageRow>): UsageRow => ({ ...none, requests: 0, chargedTokens: 0, ...row });
const times = ['2026-11-01', '2026-11-02'].map((day) => Date.parse(day) / 1_000);
const steps = { times, stepSeconds: 86_400 };
const nameOf = (value: string | null) => value ?? 'sign-in token';

test('each time has the amounts of each part, the largest part first', (t) => {
  const rows = [
    used({ day: '2026-11-01', model: 'a', requests: 5 }),
    used({ day: '2026-11-01', model: 'b', requests: 7 }),
    used({ day: '2026-11-02', model: 'a', requests: 1 }),
    used({ day: '2026-11-02', model: 'c' }),
  ];
  t.deepEqual(partSeries({ ...steps, rows, part: 'model', measure: 'requests', nameOf }), [
    { name: 'b', values: [7, 0] },
    { name: 'a', values: [5, 1] },
  ]);
  t.deepEqual(partSeries({ ...steps, rows: [], part: 'model', measure: 'requests', nameOf }), []);
});

test('costs are summed, by the hour too, and keys of one name are one part', (t) => {
  const rows = [
    used({ hour: '2026-11-01T00:00:00Z', key: null, cost: '0.5' }),
    used({ hour: '2026-11-02T00:00:00Z', key: 'sign-in token', cost: '0.25' }),
  ];
  t.deepEqual(partSeries({ ...steps, rows, part: 'key', measure: 'cost', nameOf }), [
    { name: 'sign-in token', values: [0.5, 0.25] },
  ]);
});

test('the least used parts beyond the sixth share one series', (t) => {
  const rows = Array.from({ length: 9 }, (_, index) =>
    used({ day: '2026-11-01', model: `model-${index}`, chargedTokens: (index + 1) * 10 }),
  );
  const series = partSeries({ ...steps, rows, part: 'model', measure: 'chargedTokens', nameOf });
  t.deepEqual(
    series.map(({ name }) => name),
    ['model-8', 'model-7', 'model-6', 'model-5', 'model-4', 'others'],
  );
  t.deepEqual(series.at(-1)?.values, [100, 0]);
});
