import test from 'ava';
import fc from 'fast-check';
import { shareAccounts } from '../../../workers/batches/schedule-accounts.ts';

const countsOf = (loads: ReadonlyMap<string, number>, shares: ReadonlyMap<string, readonly string[]>) =>
  [...loads].map(([worker, load]) => load + (shares.get(worker)?.length ?? 0));

test('a worker with fewer accounts gets more of them, until it has as many as the others', (t) => {
  const loads = new Map([
    ['none', 0],
    ['two', 2],
    ['nine', 9],
  ]);
  const accounts = ['a', 'b', 'c', 'd', 'e', 'f'];
  const shares = shareAccounts({ accounts, loads, sharedMax: 16, random: () => 0 });
  t.deepEqual(countsOf(loads, shares), [4, 4, 9]);
  t.deepEqual([...shares.values()].flat().sort(), accounts);
});

test('each of several workers with equally many accounts may get the next one', (t) => {
  const loads = new Map(['one', 'other'].map((worker) => [worker, 3]));
  const chosen = new Set<string>();
  while (chosen.size < 2)
    for (const worker of shareAccounts({ accounts: ['a'], loads, sharedMax: 1, random: Math.random }).keys())
      chosen.add(worker);
  t.is(chosen.size, 2);
});

test('each account is assigned once, evenly, and no worker gets more than the maximum', (t) => {
  const arbitrary = fc.record({
    accounts: fc.uniqueArray(fc.string(), { maxLength: 60 }),
    loads: fc.uniqueArray(fc.tuple(fc.string(), fc.nat(20)), { maxLength: 6, selector: ([worker]) => worker }),
    sharedMax: fc.nat(12),
  });
  fc.assert(
    fc.property(arbitrary, ({ accounts, loads: given, sharedMax }) => {
      const loads = new Map(given);
      const shares = shareAccounts({ accounts, loads, sharedMax, random: Math.random });
      const shared = [...shares.values()].flat();
      if (new Set(shared).size !== shared.length || !shared.every((account) => accounts.includes(account)))
        return false;
      if (shared.length !== Math.min(accounts.length, sharedMax * loads.size)) return false;
      if ([...shares.values()].some(({ length }) => length > sharedMax)) return false;
      // A worker that got accounts has at most one more than any worker that could have got more.
      const mayHaveMore = [...loads].filter(([worker]) => (shares.get(worker)?.length ?? 0) < sharedMax);
      const lowest = Math.min(...mayHaveMore.map(([worker, load]) => load + (shares.get(worker)?.length ?? 0)));
      return [...shares].every(([worker, { length }]) => (loads.get(worker) ?? 0) + length <= lowest + 1);
    }),
  );
  t.pass();
});
