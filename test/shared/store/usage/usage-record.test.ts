import test from 'ava';
import { byMonth } from '../../../../shared/store/usage/usage-record.ts';
import { entryAt, usageRecord } from '../usage-records.ts';

test('a batch is split by account and month, each in the order of its entries and with each entry once', (t) => {
  const of = (requestId: string, number: number, account = 'ann') =>
    usageRecord({ requestId, entry: entryAt(number), account });
  const [first, second, third] = [of('r1', 1), of('r2', 2), of('r3', 3)];
  const stored = new Map([first, second, third].map(({ requestId, entry }) => [requestId, entry]));
  const other = of('r4', 2, 'bob');
  t.deepEqual(byMonth([third, other, first, first, second], new Map([...stored, ['r4', entryAt(7)]])), [
    { account: 'ann', month: '2026-12', unsummed: [first, second, third], lastEntry: entryAt(3), disputed: false },
    { account: 'bob', month: '2026-12', unsummed: [], lastEntry: entryAt(2), disputed: true },
  ]);
  const again = of('r1', 9);
  t.deepEqual(byMonth([first, again], stored), [
    { account: 'ann', month: '2026-12', unsummed: [first], lastEntry: entryAt(9), disputed: true },
  ]);
  t.deepEqual(byMonth([], stored), []);
});
