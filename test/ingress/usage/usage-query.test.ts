import test from 'ava';
import { parseQuery } from '../../../ingress/api/lists.ts';
import {
  allUsageQuery,
  daysOfMonth,
  reportQueryOf,
  usageQuery,
  usualGroups,
} from '../../../ingress/usage/usage-query.ts';

const now = Date.parse('2026-11-26T23:59:59.999Z');
const of = (querystring: string) => {
  const { month: _, ...asked } = parseQuery(usageQuery, querystring);
  return reportQueryOf(asked, { now, usual: usualGroups });
};

test('a range has its first and its last day, and the current month up to today by default', (t) => {
  t.deepEqual(of('start=2026-01-15&end=2026-02-03').range, { start: '2026-01-15', end: '2026-02-03' });
  t.deepEqual(of('start=2026-10-31').range, { start: '2026-10-31', end: '2026-11-26' });
  t.deepEqual(of('group_by=key').range, { start: '2026-11-01', end: '2026-11-26' });
  t.deepEqual(of('start=2026-02-28&end=2026-02-28').range, { start: '2026-02-28', end: '2026-02-28' });
});

test('a range of hours has the hours of its days, or those that are named, and today by default', (t) => {
  const hours = (text: string) => of(`${text}&group_by=model,hour`);
  t.deepEqual(hours('start=2026-11-25').range, { start: '2026-11-25T00', end: '2026-11-26T23' });
  t.deepEqual(hours('start=2026-11-25T23&end=2026-11-26T00').range, { start: '2026-11-25T23', end: '2026-11-26T00' });
  t.deepEqual(hours('').range, { start: '2026-11-26T00', end: '2026-11-26T23' });
  t.like(hours('start=2026-09-26'), { unit: 'hour', groups: ['hour', 'model'] });
});

const refused = (querystring: string, message: RegExp) => [querystring, message] as const;

for (const [querystring, message] of [
  refused('start=2026-02-29', /^start: expected a day as YYYY-MM-DD, or an hour as YYYY-MM-DDTHH$/),
  refused('start=2026-13-01', /^start: expected a day/),
  refused('start=2026-1-1', /^start: expected a day/),
  refused('start=2026-01-01T00:00:00Z', /^start: expected a day/),
  refused('end=2026-06-31', /^end: expected a day/),
  refused('start=2026-02-02&end=2026-02-01', /^end: expected a time that is not before 2026-02-02$/),
  refused('start=2026-11-27', /^end: expected a time that is not before 2026-11-27$/),
  refused('end=2026-10-31', /^end: expected a time that is not before 2026-11-01$/),
  refused('start=2026-11-26T05&group_by=day', /^group_by: expected day or hour, not both$/),
  refused('start=2026-11-26T24&group_by=hour', /^start: expected a day/),
  refused('group_by=day,hour', /^group_by: expected day or hour, not both$/),
  refused('start=2026-09-01T00&end=2026-11-02&group_by=hour', /^end: expected at most 62 days$/),
  refused('start=2026-11-26T05&end=2026-11-26T04&group_by=hour', /^end: expected a time/),
  refused('start=2025-01-01&end=2026-01-02', /^end: expected at most 366 days$/),
  refused('start=2024-01-01&end=2025-01-01', /^end: expected at most 366 days$/),
  refused('group_by=', /^group_by: expected some of day, hour, model, key, endpoint, each once, separated by commas$/),
  refused('group_by=day,day', /^group_by: expected some of/),
  refused('group_by=account', /^group_by: expected some of/),
  refused('group_by=day,%20model', /^group_by: expected some of/),
  refused('group_by=constructor', /^group_by: expected some of/),
  refused('format=xml', /^format: /),
  refused('start=2026-01-01&start=2026-01-02', /^start: expected/),
  refused('limit=5', /^limit: is not known$/),
  refused('order=charged', /^order: is not known$/),
  refused('month=2026-13', /^month: expected a month as YYYY-MM$/),
  refused('month=2026-00', /^month: expected a month/),
  refused('month=2026-20', /^month: expected a month/),
  refused('month=02026-03', /^month: expected a month/),
  refused('month=2026-03-01', /^month: expected a month/),
  refused('month=2026-03&start=2026-03-01', /^start: expected without month$/),
  refused(
    'month=2026-03&end=2026-03-01&group_by=day',
    /^end: expected without month; group_by: expected without month$/,
  ),
] as const) {
  test(`${querystring} is refused at its field`, (t) => {
    t.throws(() => of(querystring), { code: 'VALIDATION_ERROR', message });
  });
}

test('366 days are allowed, in a leap year and over the end of a year', (t) => {
  t.notThrows(() => of('start=2024-01-01&end=2024-12-31'));
  t.notThrows(() => of('start=2025-01-01&end=2026-01-01'));
  t.notThrows(() => of('start=2023-03-01&end=2024-02-29'));
});

test('groups come in the order of reports, whatever the order of the query', (t) => {
  t.deepEqual(of('group_by=endpoint,key,day').groups, ['day', 'key', 'endpoint']);
  t.deepEqual(of('start=2026-11-01').groups, ['day', 'model']);
});

test('a month is the two digits after the year', (t) => {
  for (const month of ['2026-01', '2026-09', '2026-10', '2026-12', '0000-01', '9999-12'])
    t.is(parseQuery(usageQuery, `month=${month}`).month, month);
});

test('a month has all its days', (t) => {
  t.deepEqual(daysOfMonth('2024-02'), { start: '2024-02-01', end: '2024-02-29' });
  t.deepEqual(daysOfMonth('2026-02'), { start: '2026-02-01', end: '2026-02-28' });
  t.deepEqual(daysOfMonth('2026-12'), { start: '2026-12-01', end: '2026-12-31' });
  t.deepEqual(daysOfMonth('9999-12'), { start: '9999-12-01', end: '9999-12-31' });
  t.deepEqual(daysOfMonth('0001-04'), { start: '0001-04-01', end: '0001-04-30' });
});

test('operators can group by account, and ask for the rows with the most charged tokens', (t) => {
  t.deepEqual(parseQuery(allUsageQuery, ''), { order: 'groups' });
  t.like(parseQuery(allUsageQuery, 'group_by=model,account&order=charged&limit=1000'), {
    order: 'charged',
    limit: 1_000,
  });
  for (const without of ['limit=5', 'order=groups&limit=5'])
    t.throws(() => parseQuery(allUsageQuery, without), { message: 'limit: expected with an order of the most' });
  for (const wrong of [
    'order=charged&limit=0',
    'order=charged&limit=1001',
    'order=tokens',
    'month=2026-03',
    'group_by=account,account',
  ])
    t.throws(() => parseQuery(allUsageQuery, wrong), { code: 'VALIDATION_ERROR' });
});
