import test from 'ava';
import { sumsBy } from '../../../ingress/console/charts/steps.ts';
import { concernsOf } from '../../../ingress/console/overview/attention.ts';
import { programFor } from '../../../ingress/console/overview/call-the-api.ts';
import { chartQuery, hoursIn, sentIn, seriesBy, stepsOfSpan } from '../../../ingress/console/overview/hours-report.ts';
import { formatChange } from '../../../ingress/console/page/format.ts';
import { dailyUse, forecastDays, monthForecast, usedUpAt } from '../../../ingress/console/usage/month-forecast.ts';
import type { Batch } from '../../../ingress/routes/present-batch.ts';
import type { Key } from '../../../ingress/routes/present-key.ts';
import type { UsageReport, UsageRow } from '../../../ingress/usage/usage-report.ts';

const now = Date.parse('2026-11-30T07:20:00Z');
const counts = {
  ...{ requests: 0, failed: 0, cancelled: 0, promptTokens: 0, cachedTokens: 0 },
  ...{ completionTokens: 0, chargedTokens: 0, overageTokens: 0 },
};
const row = (hour: string, more: Partial<UsageRow>): UsageRow => ({
  ...counts,
  hour: `2026-11-${hour}:00:00Z`,
  ...more,
});
const total = (more: Partial<UsageReport['total']> = {}): UsageReport['total'] => ({ ...counts, ...more });

test('a span ends with the present hour, and the one before it ends where it begins', (t) => {
  t.deepEqual(hoursIn('day', now), { start: '2026-11-29T08', end: '2026-11-30T07' });
  t.deepEqual(hoursIn('day', now, 1), { start: '2026-11-28T08', end: '2026-11-29T07' });
  const { times, stepSeconds } = stepsOfSpan('day', now);
  t.deepEqual([times.length, stepSeconds], [24, 3_600]);
  const days = stepsOfSpan('month', now);
  t.is(days.stepSeconds, 86_400);
  t.is(days.times.length, 31);
  t.is(new Date((days.times.at(-1) ?? 0) * 1_000).toISOString(), '2026-11-30T00:00:00.000Z');
});

test('a chart of a month is read by days, because a report has a bound of rows', (t) => {
  const queryOf = (...[wanted]: Parameters<typeof chartQuery>) => Object.fromEntries(chartQuery(wanted, now));
  t.deepEqual(queryOf({ span: 'month', by: 'key' }, now), {
    ...{ start: '2026-10-31', end: '2026-11-30', group_by: 'day,key' },
  });
  t.deepEqual(queryOf({ span: 'week', by: 'cost' }, now), {
    ...{ start: '2026-11-23T08', end: '2026-11-30T07', group_by: 'hour,model' },
  });
  const days = [{ ...total({ requests: 4 }), day: '2026-11-29' }] as UsageRow[];
  t.deepEqual(sumsBy(days, stepsOfSpan('month', now), ({ requests }) => requests).slice(-2), [4, 0]);
});

test('hours without usage are 0, and hours of a day are summed in a long span', (t) => {
  const rows = [row('30T07', { requests: 3 }), row('30T06', { requests: 4 }), row('29T08', { requests: 5 })];
  const requests = ({ requests: number }: UsageRow) => number;
  const ofDay = sumsBy(rows, stepsOfSpan('day', now), requests);
  t.deepEqual([ofDay[0], ofDay[1], ofDay.at(-2), ofDay.at(-1)], [5, 0, 4, 3]);
  t.deepEqual(sumsBy(rows, stepsOfSpan('month', now), requests).slice(-2), [5, 7]);
});

test('a chart has the outcomes that there were, and of models and keys the most used', (t) => {
  const steps = stepsOfSpan('day', now);
  const wanted = { ...steps, nameOfKey: (id: string | null) => id ?? 'sign-in token' };
  const rows = [row('30T07', { requests: 9, failed: 2, cancelled: 1, refused: 4 })];
  const outcomes = seriesBy(rows, { ...wanted, by: 'outcome' });
  t.deepEqual(
    outcomes.map(({ name, values }) => [name, values.at(-1)]),
    [
      ['completed', 6],
      ['cancelled', 1],
      ['refused', 4],
      ['failed', 2],
    ],
  );
  t.deepEqual(
    seriesBy([row('30T07', { requests: 1 })], { ...wanted, by: 'outcome' }).map(({ name }) => name),
    ['completed'],
  );
  const keys = Array.from({ length: 8 }, (_, index) => row('30T07', { key: `k${index}`, requests: index + 1 }));
  t.deepEqual(
    seriesBy([...keys, row('30T06', { key: null, requests: 2 })], { ...wanted, by: 'key' }).map(({ name }) => name),
    ['k7', 'k6', 'k5', 'k4', 'k3', 'others'],
  );
  const costs = [row('30T07', { model: 'a', cost: '0.5' }), row('30T07', { model: 'b', cost: '0' })];
  t.deepEqual(
    seriesBy(costs, { ...wanted, by: 'cost' }).map(({ name }) => name),
    ['a'],
  );
});

const day = (date: string, cost: string, more: Partial<UsageRow> = {}): UsageRow => ({
  ...counts,
  day: date,
  cost,
  ...more,
});
const costOf = ({ cost = '0' }: UsageRow) => Number(cost);

test('the forecast adds the rest of the month at the rate of the last week', (t) => {
  const noon = Date.parse('2026-11-20T00:00:00Z');
  t.deepEqual(forecastDays(noon), { start: '2026-10-20', end: '2026-11-20' });
  const week = ['13', '14', '15', '16', '17', '18', '19'].map((date) => day(`2026-11-${date}`, '1'));
  t.is(monthForecast([day('2026-10-30', '50'), day('2026-11-02', '3'), ...week], costOf, noon), 10 + 11);
  t.is(monthForecast([], costOf, noon), 0);
});

test('what began less than a week ago is divided by its age, which is at least a day', (t) => {
  const now = Date.parse('2026-11-20T12:00:00Z');
  const days = [day('2026-11-10', '0'), day('2026-11-18', '5'), day('2026-11-20', '5')];
  t.is(dailyUse(days, costOf, now), 4, 'two and a half days');
  t.is(dailyUse([day('2026-11-20', '5')], costOf, now), 5);
  t.is(dailyUse([day('2026-11-01', '5')], costOf, now), 0);
});

test('an allowance is used up before it is renewed, or is not said to be', (t) => {
  const at = (remaining: number | null, resetDate: string, perDay: number) =>
    usedUpAt({ remaining, resetDate }, perDay, now);
  t.is(at(100, '2026-12-31', 50), now + 2 * 86_400_000);
  t.is(at(100, '2026-12-01', 50), undefined, 'it is renewed before');
  t.deepEqual(
    [at(null, '2026-12-31', 50), at(0, '2026-12-31', 50), at(9, '2026-12-31', 0)],
    [undefined, undefined, undefined],
  );
});

test('a change is in percent, and there is none from nothing', (t) => {
  t.deepEqual(
    [
      [112, 100],
      [80, 100],
      [5, 5],
      [5, 0],
    ].map(([now = 0, before = 0]) => formatChange(now, before)),
    ['+12 %', '−20 %', '±0 %', undefined],
  );
  t.is(
    formatChange(sentIn({ requests: 5, refused: 5 }), sentIn({ requests: 10 })),
    '±0 %',
    'refused requests were sent, too',
  );
});

test('errors by code, keys that end within a week and batches with failed lines need attention', (t) => {
  const report = {
    total: total({ errors: { rate_limit_exceeded: 2, UPSTREAMS_EXHAUSTED: 9, SERVICE_UNAVAILABLE: 4, lost: 1 } }),
  } as UsageReport;
  const refusals = { ...total({ refused: 5 }), errors: { rate_limit_exceeded: 2, SERVICE_UNAVAILABLE: 3 } };
  const models = { data: [{ ...refusals, model: '-' }] } as unknown as UsageReport;
  const key = (id: string, hours: number) =>
    ({ id, name: id, state: 'active', expires_at: Math.floor(now / 1_000) + hours * 3_600, valid_until: null }) as Key;
  const batch = (id: string, status: string, failed: number) =>
    ({ id, status, request_counts: { total: 10, completed: 10 - failed, failed } }) as Batch;
  const concerns = concernsOf(
    {
      usage: report,
      models,
      keys: [key('soon', 40), key('later', 400)],
      batches: [
        batch('batch_1', 'completed', 3),
        batch('batch_2', 'cancelled', 9),
        batch('batch_3', 'completed', 0),
        batch('batch_4', 'failed', 0),
      ],
    },
    now,
  );
  t.deepEqual(
    concerns.map(({ label, tone, text, link }) => [label, tone, text, ...(link ? [link.href] : [])]),
    [
      ['UPSTREAMS_EXHAUSTED', 'bad', '9 requests', '#requests?code=UPSTREAMS_EXHAUSTED'],
      ['SERVICE_UNAVAILABLE', 'bad', '4 requests', '#requests?code=SERVICE_UNAVAILABLE'],
      ['rate_limit_exceeded', 'warning', '2 requests'],
      ['lost', 'bad', '1 request', '#requests?outcome=lost'],
      ['key', 'warning', '"soon" expires in 1 d 16 h', '#keys'],
      ['batch', 'warning', '3 of 10 lines failed', '#batches/batch_1'],
      ['batch', 'warning', 'batch_4 did not run', '#batches/batch_4'],
    ],
  );
});

test('a program has the base address and the model, and takes the key from the environment', (t) => {
  for (const language of ['curl', 'node', 'python'] as const) {
    const program = programFor(language, { baseUrl: 'https://ai.example.com', model: 'small-chat' });
    t.true(program.includes('https://ai.example.com/openai/v1'));
    t.true(program.includes('small-chat'));
    t.regex(program, /KEY/);
  }
});
