import test from 'ava';
import { allDaysOf, changeOf, daysBefore, daysOf, lengthOf } from '../../../ingress/console/usage/day-range.ts';

test('each period ends today or with the last month', (t) => {
  t.deepEqual(daysOf('this-month', '2026-03-31'), { start: '2026-03-01', end: '2026-03-31' });
  t.deepEqual(daysOf('this-month', '2026-03-01'), { start: '2026-03-01', end: '2026-03-01' });
  t.deepEqual(daysOf('last-month', '2026-03-31'), { start: '2026-02-01', end: '2026-02-28' });
  t.deepEqual(daysOf('last-month', '2024-03-01'), { start: '2024-02-01', end: '2024-02-29' });
  t.deepEqual(daysOf('last-month', '2026-01-15'), { start: '2025-12-01', end: '2025-12-31' });
  t.deepEqual(daysOf('last-7', '2026-03-03'), { start: '2026-02-25', end: '2026-03-03' });
  t.is(lengthOf(daysOf('last-30', '2026-01-01')), 30);
  t.is(lengthOf(daysOf('last-90', '2024-03-01')), 90);
});

test('the days before are as many, and end on the day before', (t) => {
  t.deepEqual(daysBefore({ start: '2026-03-01', end: '2026-03-31' }), { start: '2026-01-29', end: '2026-02-28' });
  t.deepEqual(daysBefore({ start: '2024-03-01', end: '2024-03-01' }), { start: '2024-02-29', end: '2024-02-29' });
  t.deepEqual(daysBefore({ start: '2026-01-01', end: '2026-12-31' }), { start: '2025-01-01', end: '2025-12-31' });
});

test('all days of a range are listed, over the end of a year', (t) => {
  t.deepEqual(allDaysOf({ start: '2025-12-30', end: '2026-01-02' }), [
    '2025-12-30',
    '2025-12-31',
    '2026-01-01',
    '2026-01-02',
  ]);
});

test('a change is in whole percent, and there is none from nothing', (t) => {
  t.is(changeOf(150, 100), '+50 %');
  t.is(changeOf(50, 100), '−50 %');
  t.is(changeOf(0, 100), '−100 %');
  t.is(changeOf(1_000, 1_001), '±0 %');
  t.is(changeOf(5, 0), undefined);
  t.is(changeOf(0, 0), undefined);
});
