import test from 'ava';
import { usageRecordSchema } from '../../../shared/store/usage/usage-record.ts';
import { compareBooks } from './books.ts';

const record = (requestId: string, chargedTokens: number, outcome = 'completed') =>
  usageRecordSchema.parse({
    ...{
      requestId,
      account: 'user:a',
      keyId: 'k',
      plan: 'free',
      model: 'm',
      tier: 'guest',
      endpoint: 'chat',
      batch: null,
    },
    ...{ month: '2026-01', admittedAt: new Date(), settledAt: new Date(), runs: 1, attempts: [] },
    ...{ promptTokens: 10, completionTokens: 5, cachedTokens: 0, chargedTokens, counted: 'reported', outcome },
    ...{ queueWaitMs: null, firstTokenMs: null, durationMs: null, overage: false, entry: '1-0' },
  });
const call = (id: string, tokens = 15) => ({ id, at: 0, tokens });
const records = (...all: ReturnType<typeof record>[]) => new Map(all.map((each) => [each.requestId, each]));
const right = {
  calls: [call('a'), call('b')],
  records: records(record('a', 15), record('b', 15)),
  counted: { admitted: 2, used: 30 },
};

test('matching records and calls yield nothing over-admitted, lost or duplicated', (t) => {
  t.deepEqual(compareBooks(right), { overAdmitted: 0, lostUsage: 0, duplicates: 0 });
});

test('a request that the limits did not count is over-admitted, and one that made no call is not', (t) => {
  t.is(compareBooks({ ...right, counted: { admitted: 1, used: 30 } }).overAdmitted, 1);
  t.is(compareBooks({ ...right, counted: { admitted: 3, used: 30 } }).overAdmitted, 0);
});

test('a request without a record and a mark is over-admitted, even if enough others were counted', (t) => {
  const evidence = { ...right, records: records(record('a', 15)), counted: { admitted: 3, used: 15 } };
  t.is(compareBooks(evidence).overAdmitted, 1);
  t.is(compareBooks({ ...evidence, admitted: new Set(['b']) }).overAdmitted, 0);
});

test('at the end of a day or a month each request is judged separately', (t) => {
  const counted = { admitted: undefined, used: undefined };
  t.deepEqual(compareBooks({ ...right, counted }), { overAdmitted: 0, lostUsage: 0, duplicates: 0 });
  const missing = { ...right, records: records(record('a', 15)), counted };
  t.deepEqual(compareBooks(missing), { overAdmitted: 1, lostUsage: 15, duplicates: 0 });
});

test('tokens without a record, or with a number that differs from the produced or counted one, are lost', (t) => {
  const missing = { ...right, records: records(record('a', 15)), counted: { admitted: 2, used: 15 } };
  t.is(compareBooks(missing).lostUsage, 15);
  const tooFew = { ...right, records: records(record('a', 15), record('b', 10)), counted: { admitted: 2, used: 25 } };
  t.is(compareBooks(tooFew).lostUsage, 5);
  t.is(compareBooks({ ...right, counted: { admitted: 2, used: 20 } }).lostUsage, 10, 'less was charged to the month');
});

test('a client that has left is charged no more than was produced for it', (t) => {
  const left = (charged: number) => ({
    ...{ calls: [call('a', 12)], counted: { admitted: 1, used: charged } },
    records: records(record('a', charged, 'cancelled')),
  });
  t.is(compareBooks(left(10)).lostUsage, 0);
  t.is(compareBooks(left(14)).lostUsage, 2);
});

test('a second call of the same request is a duplicate', (t) => {
  t.is(compareBooks({ ...right, calls: [...right.calls, call('b', 0)] }).duplicates, 1);
});
