import test from 'ava';
import { costAbout, usualMax } from '../../../ingress/console/usage/overage-switch.ts';
import { type Filters, filterOf, filtersOf } from '../../../ingress/console/usage/report-filters.ts';
import {
  changeOf,
  hasHours,
  hoursOf,
  lengthOf,
  rangeBefore,
  rangeOf,
  stepsOfRange,
} from '../../../ingress/console/usage/usage-range.ts';

const days = (start: string, end: string) => ({ start, end });

test('each period ends now, with yesterday or with the last month', (t) => {
  t.deepEqual(rangeOf('this-month', '2026-03-31T07'), days('2026-03-01', '2026-03-31'));
  t.deepEqual(rangeOf('this-month', '2026-03-01T00'), days('2026-03-01', '2026-03-01'));
  t.deepEqual(rangeOf('last-month', '2026-03-31T07'), days('2026-02-01', '2026-02-28'));
  t.deepEqual(rangeOf('last-month', '2024-03-01T07'), days('2024-02-01', '2024-02-29'));
  t.deepEqual(rangeOf('last-month', '2026-01-15T07'), days('2025-12-01', '2025-12-31'));
  t.deepEqual(rangeOf('last-7', '2026-03-03T07'), days('2026-02-25', '2026-03-03'));
  t.deepEqual(rangeOf('yesterday', '2026-03-01T07'), days('2026-02-28', '2026-02-28'));
  t.deepEqual(rangeOf('last-24-hours', '2026-03-01T07'), days('2026-02-28T08', '2026-03-01T07'));
  t.is(lengthOf(rangeOf('last-30', '2026-01-01T07')), 30);
  t.is(lengthOf(rangeOf('last-90', '2024-03-01T07')), 90);
  t.is(lengthOf(rangeOf('last-24-hours', '2024-03-01T07')), 24);
});

const now = { hour: '2026-03-31T07', daysMax: 62 };

test('the time before is as long; of a range that is not over, only as much counts as has passed', (t) => {
  const before = (start: string, end: string, options = now) => rangeBefore({ start, end }, options);
  t.deepEqual(before('2026-02-01', '2026-02-28'), days('2026-01-04', '2026-01-31'));
  t.deepEqual(before('2026-03-01', '2026-03-31'), days('2026-01-29T00', '2026-02-28T07'));
  t.deepEqual(before('2026-03-31', '2026-03-31'), days('2026-03-30T00', '2026-03-30T07'));
  t.deepEqual(before('2026-03-30T08', '2026-03-31T07'), days('2026-03-29T08', '2026-03-30T07'));
  t.deepEqual(before('2026-01-01', '2026-03-31'), days('2025-10-03', '2025-12-31'), 'there are no hours of it');
  t.deepEqual(before('2026-03-01', '2026-03-31', { ...now, daysMax: 8 }), days('2026-01-29', '2026-02-28'));
});

test('a range has hours as long as they are kept, and not more than a report has', (t) => {
  t.true(hasHours(days('2026-03-01', '2026-03-31'), now));
  t.false(hasHours(days('2026-01-28', '2026-01-28'), now));
  t.false(hasHours(days('2026-03-01', '2026-03-31'), { ...now, daysMax: 8 }));
  t.deepEqual(hoursOf(days('2026-03-30', '2026-03-31')), days('2026-03-30T00', '2026-03-31T23'));
});

test('all days and hours of a range are steps, over the end of a year', (t) => {
  const steps = (start: string, end: string) =>
    stepsOfRange({ start, end }).times.map((seconds) => new Date(seconds * 1_000).toISOString().slice(0, 13));
  t.deepEqual(steps('2025-12-31', '2026-01-01'), ['2025-12-31T00', '2026-01-01T00']);
  t.deepEqual(steps('2025-12-31T23', '2026-01-01T00'), ['2025-12-31T23', '2026-01-01T00']);
});

test('a change is in whole percent; there is none from nothing, and none to nothing', (t) => {
  t.is(changeOf(150, 100), '+50 %');
  t.is(changeOf(50, 100), '−50 %');
  t.is(changeOf(1_000, 1_001), '±0 %');
  t.is(changeOf(0, 100), 'no usage yet');
  t.is(changeOf(5, 0), 'no earlier usage');
  t.is(changeOf(0, 0), 'no earlier usage');
});

test('overage has a bound at first: half of the allowance, and not more than the plan allows', (t) => {
  t.is(usualMax(10_000_000, null), 5_000_000);
  t.is(usualMax(10_000_000, 1_000_000), 1_000_000);
  t.is(usualMax(1, null), 1);
});

test('what overage costs is estimated by the tokens of the month that have a price', (t) => {
  const counts = { requests: 1, failed: 0, cancelled: 0, cachedTokens: 0, chargedTokens: 1_000, overageTokens: 0 };
  const total = { ...counts, promptTokens: 700, completionTokens: 500, unpricedTokens: 200, cost: '0.0006' };
  t.is(costAbout(5_000_000, { total, currency: 'USD' }), '3.00 USD');
  t.is(costAbout(5_000_000, { total }), undefined);
  t.is(costAbout(5_000_000, { total: { ...total, unpricedTokens: 1_200, cost: '0' }, currency: 'USD' }), undefined);
});

test('an address names what a report is asked for, and what it does not name is as at first', (t) => {
  const first: Filters = {
    period: 'this-month',
    own: { start: '2026-12-02', end: '2026-12-02' },
    group: 'day',
    further: ['model'],
  };
  for (const asked of [
    {},
    { period: 'never', by: 'tokens,constructor' },
    { start: '2026-11-01' },
    { start: '2026-99-99', end: '2026-11-30' },
  ])
    t.deepEqual(filtersOf(asked, first), first, JSON.stringify(asked));
  t.deepEqual(filtersOf({ period: 'yesterday', by: 'key' }, first), {
    ...first,
    ...{ period: 'yesterday', group: 'key', further: [] },
  });
  const own = { period: 'own', start: '2026-11-01', end: '2026-11-30', by: 'model,key' };
  t.deepEqual(filterOf(filtersOf(own, first)), own);
  t.deepEqual(filterOf(first), { period: 'this-month', by: 'day,model' });
});
