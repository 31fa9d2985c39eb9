import test from 'ava';
import { type Charged, compareBooks } from './compare-books.ts';

const call = (requestId: string, state: 'completed' | 'failed' = 'completed') => ({
  ...{ requestId, state, promptTokens: 10, completionTokens: 5 },
});
const record: Charged = { outcome: 'completed', chargedTokens: 15 };
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

test('a request that was served once and charged for it is right, a call that failed before it included', (t) => {
  t.deepEqual(wrongIn(right), []);
});

test('an answer that nobody charged, or that was charged otherwise, is found', (t) => {
  t.deepEqual(wrongIn({ ...right, records: new Map([['a', record]]) }), [['answered, without a usage record', 1]]);
  const cancelled = new Map(right.records).set('b', { ...record, outcome: 'cancelled' });
  t.deepEqual(wrongIn({ ...right, records: cancelled }), [['answered, without a usage record', 1]]);
  const cheaper = new Map(right.records).set('b', { ...record, chargedTokens: 14 });
  t.deepEqual(wrongIn({ ...right, records: cheaper }), [['charged other tokens than were served', 1]]);
});

test('an answer that nobody served, that was served twice, or that has the id of another, is found', (t) => {
  t.deepEqual(wrongIn({ ...right, calls: [call('a')] }), [['answered, and no model server has served it', 1]]);
  t.deepEqual(wrongIn({ ...right, calls: [...right.calls, call('a')] }), [['served twice', 1]]);
  t.deepEqual(wrongIn({ ...right, answered: ['a', 'b', 'a'] }), [['answered twice under one id', 1]]);
});
