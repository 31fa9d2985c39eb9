import test from 'ava';
import { requestIdPattern } from '../../../ingress/requests/find-requests.ts';
import { usageRecordSchema } from '../../../shared/store/usage/usage-record.ts';
import { type PastCaller, pastRefusals, pastUsage } from './past-usage.ts';
import { seedAccounts } from './seed-accounts.ts';

const models = [{ model: 'small-chat', tier: 'guest', endpoint: '/v1/chat/completions' }];
const caller: PastCaller = { account: 'user:ada', keyId: 'key_01', plan: 'pro', models, requestsPerDay: 80 };
const now = Date.parse('2026-11-26T15:20:00Z');
const hourMs = 3_600_000;
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

test('seeded usage is the same for the same time, reaches from two months ago to this hour, and is in the order of the outbox', (t) => {
  const records = pastUsage(caller, now);
  t.deepEqual(pastUsage(caller, now), records);
  t.notDeepEqual(pastUsage({ ...caller, account: 'user:grace' }, now), records);
  for (const record of records) {
    usageRecordSchema.parse(record);
    t.true(record.settledAt.getTime() <= now);
    t.is(record.month, record.admittedAt.toISOString().slice(0, 7));
  }
  t.deepEqual([...new Set(records.map(({ month }) => month))].toSorted(), ['2026-09', '2026-10', '2026-11']);
  const entries = records.map(({ entry }) => entry);
  t.deepEqual(entries.toSorted(), entries);
  t.is(new Set(records.map(({ requestId }) => requestId)).size, records.length);
  t.true(
    records.every(({ requestId }) => requestIdPattern.test(requestId)),
    'each can be looked up',
  );
  t.true(
    records.some(({ admittedAt }) => admittedAt.getTime() > now - hourMs),
    'this hour',
  );
});

test('seeded usage has a rhythm of days and weeks, a peak, and an hour in which most requests failed', (t) => {
  const records = pastUsage(caller, now);
  const countIn = (from: number, hours: number) =>
    records.filter(({ admittedAt }) => admittedAt.getTime() >= from && admittedAt.getTime() < from + hours * hourMs);
  const hours = records.map(({ admittedAt }) => admittedAt.getUTCHours());
  t.true(hours.filter((hour) => hour >= 9 && hour < 17).length > 4 * hours.filter((hour) => hour < 8).length);
  const week = Array.from({ length: 7 }, (_, day) => countIn(Date.parse('2026-11-09') + day * 24 * hourMs, 24).length);
  t.true(sum(week.slice(0, 5)) / 5 > 2 * (sum(week.slice(5)) / 2));
  t.true(countIn(Date.parse('2026-11-25T13:00:00Z'), 1).length > 50);

  const bad = countIn(Date.parse('2026-11-26T12:00:00Z'), 1);
  const failed = bad.filter(({ outcome }) => outcome === 'failed');
  t.true(bad.length >= 20 && failed.length > bad.length / 2);
  for (const { chargedTokens, attempts } of failed) t.deepEqual([chargedTokens, attempts.length], [0, 3]);
});

test('large requests fill the month to the token, also in its first minute, and not if it is full', (t) => {
  const monthOf = (at: number, fillsTo: number) => {
    const month = new Date(at).toISOString().slice(0, 7);
    const records = pastUsage({ ...caller, fillsTo }, at).filter((record) => record.month === month);
    t.true(records.every(({ settledAt }) => settledAt.getTime() <= at));
    return sum(records.map(({ chargedTokens }) => chargedTokens));
  };
  t.is(monthOf(now, 8_000_001), 8_000_001);
  t.is(monthOf(Date.parse('2026-12-01T00:01:00Z'), 1_880_000), 1_880_000);
  t.is(monthOf(now, 5), monthOf(now, 0));
});

test('there are twelve accounts of both plans, from one request per day to eighty', (t) => {
  t.is(new Set(seedAccounts.map(({ name }) => name)).size, 12);
  t.deepEqual([...new Set(seedAccounts.map(({ plan }) => plan))], ['pro', 'free']);
  const sizes = seedAccounts.map(({ requestsPerDay }) => requestsPerDay);
  t.deepEqual([Math.min(...sizes), Math.max(...sizes)], [1, 80]);
  t.deepEqual(
    seedAccounts.flatMap(({ batches = [] }) => batches),
    ['completed', 'cancelled', 'running', 'completed', 'failed'],
  );
});

test('seeded refusals are of past hours of the last week, and have the same entry whenever they are seeded', (t) => {
  const refusals = pastRefusals(caller, now);
  t.is(refusals.length, 14);
  t.true(refusals.every(({ start }) => start.endsWith('T10')));
  const entries = refusals.map(({ entry }) => entry);
  t.deepEqual(entries.toSorted(), entries);
  t.deepEqual(pastRefusals(caller, now + hourMs), refusals);
});
