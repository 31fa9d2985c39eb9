import test from 'ava';
import { type ChargedRecord, compareBooks } from './compare-books.ts';

const call = (requestId: string, state: 'completed' | 'failed' = 'completed') => ({
  ...{ requestId, state, promptTokens: 10, completionTokens: 5 },
});
const record: ChargedRecord = { outcome: 'completed', chargedTokens: 15 };
const right = {
  answered: ['a', 'b'],
  records: new Map([
    ['a', record],
    ['b', record],
  ]),
  calls: [call('a'), call('b', 'failed'), call('b'), call('left by its client')],
};
const wrongIn = (evidence: Parameters<typeof compareBooks>[0]) =>
  Object.entries(compareBooks(evidence)).filter(([, count]) => count > 0);

test('a request that was served once and charged for it is right, including an earlier failed call', (t) => {
  t.deepEqual(wrongIn(right), []);
});

test('an answer without a charge, or with a different charge, is reported', (t) => {
  t.deepEqual(wrongIn({ ...right, records: new Map([['a', record]]) }), [['answered, but without a usage record', 1]]);
  const cancelled = new Map(right.records).set('b', { ...record, outcome: 'cancelled' });
  t.deepEqual(wrongIn({ ...right, records: cancelled }), [['answered, but without a usage record', 1]]);
  const cheaper = new Map(right.records).set('b', { ...record, chargedTokens: 14 });
  t.deepEqual(wrongIn({ ...right, records: cheaper }), [['charged tokens differ from served tokens', 1]]);
});

test('an answer that was not served, was served twice, or has the id of another, is reported', (t) => {
  t.deepEqual(wrongIn({ ...right, calls: [call('a')] }), [['answered, but served by no model server', 1]]);
  t.deepEqual(wrongIn({ ...right, calls: [...right.calls, call('a')] }), [['served twice', 1]]);
  t.deepEqual(wrongIn({ ...right, answered: ['a', 'b', 'a'] }), [['answered twice with one id', 1]]);
});
