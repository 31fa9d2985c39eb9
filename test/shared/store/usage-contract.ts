import type { ExecutionContext } from 'ava';
import { z } from 'zod';
import type { Store } from '../../../shared/store/records/store.ts';
import type { UsageMonth, UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import { type Contract, provesOnStore, type StoreHome } from './store-contract.ts';
import { daysOf, entryAt, sumOf, usageRecord, usageRecords } from './usage-records.ts';

/** The guarantees of every store for usage records and their sums. */
export function testUsageContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('a record is found unchanged by its request, and there is no usage before the first record', keepsRecord);
  prove('a sum counts each record once: by day, by model and in total', sumsUp);
  prove('accounts and months have separate sums, also within one batch', keepsMonthsApart);
  prove('names are stored unchanged, with any characters', takesOddNames);
  prove('numbers above 32 bits are added exactly', addsLargeNumbers);
  prove('a batch may be repeated, completely, in part and in other pieces', ignoresRepeats);
  prove('a request that comes again under another entry is counted once', countsOnceUnderAnotherEntry);
  prove('a request that comes again before its own entry was summed is counted', countsTheUnsummed);
  prove('an entry before the last entry of the sum is counted as well', countsMisplaced);
  prove('a thousand records of many accounts are stored at once', takesThousand);
  prove('an empty list of records is accepted, and an invalid record is rejected', takesNone);
  prove('a wrong sum is found and repaired', repairs);
  prove('wrong and missing details are found and repaired, and a correct sum stays', repairsDetails);
  prove('details that moved before their sum are not counted twice', countsDetailsOnce);
  prove('an entry that a detail is already past is counted as well', countsPassedInDetail);
  prove('a month with records and no sum gets one', repairsMissing);
  prove('a repair of a correct sum does not change it', repairsNothing);
  prove('records that are not summed yet are no difference, unless they are requested', leavesOutTheUnsummed);
  prove('a month of more records than one read returns is recomputed exactly', recomputesPages);
  prove('all months that have a sum or a record are listed, page by page', listsMonths);
  prove('old months are removed in bounded pieces, records before sums, and no other month', removesOld);
}

async function keepsRecord(t: ExecutionContext, store: Store): Promise<void> {
  const attempts = [{ run: 1, outcome: 'lost' }];
  const plain = usageRecord({ attempts, queueWaitMs: null, firstTokenMs: null, durationMs: null, outcome: 'lost' });
  const record = usageRecord({ batch: 'batch_1', overage: true, entry: entryAt(1), cachedTokens: 3 });
  t.is(await store.usage.findUsageRecord(record.requestId), undefined);
  t.is(await store.usage.findUsageSum('user:ann', '2026-12'), undefined);
  await store.usage.recordUsage([plain, { ...record, secret: 'not a field of a record' } as UsageRecord]);
  t.deepEqual(await store.usage.findUsageRecord(record.requestId), record);
  t.deepEqual(await store.usage.findUsageRecord(plain.requestId), plain);
}

async function sumsUp(t: ExecutionContext, store: Store): Promise<void> {
  const [first, second] = [new Date('2026-12-05T23:59:59.999Z'), new Date('2026-12-06T00:00:00.000Z')];
  const of = (given: Partial<UsageRecord>) => ({ promptTokens: 10, completionTokens: 5, ...given });
  const shapes = [
    of({ admittedAt: first }),
    of({ admittedAt: first, outcome: 'failed', completionTokens: 0, chargedTokens: 0 }),
    of({ admittedAt: first, outcome: 'lost', promptTokens: 0, completionTokens: 0 }),
    of({ admittedAt: first, outcome: 'cancelled', chargedTokens: 12, model: 'large-chat' }),
    of({ admittedAt: second, overage: true }),
    of({ admittedAt: second, overage: true, chargedTokens: 7 }),
  ];
  await store.usage.recordUsage(usageRecords(shapes.length, (index) => shapes[index] ?? {}));
  const none = { failed: 0, cancelled: 0, overageTokens: 0 };
  const small = { ...none, requests: 3, failed: 2, promptTokens: 20, completionTokens: 5, chargedTokens: 15 };
  const large = { ...none, requests: 1, cancelled: 1, promptTokens: 10, completionTokens: 5, chargedTokens: 12 };
  const next = { ...none, requests: 2, promptTokens: 20, completionTokens: 10, chargedTokens: 22, overageTokens: 22 };
  t.deepEqual(await store.usage.findUsageSum('user:ann', '2026-12'), {
    account: 'user:ann',
    month: '2026-12',
    lastEntry: entryAt(6),
    total: {
      requests: 6,
      failed: 2,
      cancelled: 1,
      promptTokens: 50,
      completionTokens: 20,
      chargedTokens: 49,
      overageTokens: 22,
    },
  });
  t.deepEqual(await store.usage.findUsageDays('user:ann', '2026-12'), [
    { day: '2026-12-05', model: 'large-chat', ...large },
    { day: '2026-12-05', model: 'small-chat', ...small },
    { day: '2026-12-06', model: 'small-chat', ...next },
  ]);
}

async function keepsMonthsApart(t: ExecutionContext, store: Store): Promise<void> {
  const accounts = ['user:ann', 'user:bob', 'user:ann 2026-11'];
  const days = [new Date('2026-11-30T23:59:59Z'), new Date('2026-12-01T00:00:00Z')];
  const records = usageRecords(60, (index) => ({
    account: accounts[index % 3] ?? '',
    admittedAt: days[index % 2] ?? new Date(0),
    promptTokens: index,
  }));
  await store.usage.recordUsage(records);
  await isExact(t, store, records);
  t.is(await store.usage.findUsageSum('user:carl', '2026-12'), undefined);
  t.is(await store.usage.findUsageSum('user:ann', '2026-10'), undefined);
}

async function takesOddNames(t: ExecutionContext, store: Store): Promise<void> {
  const models = ['a.b', 'a%2Eb', 'a', '$set', 'meta/llama-3.3:70b@x', '%', 'constructor', '名前 🗝️', "'; --", '"\\'];
  const accounts = ['user:ann', 'user:a.b$c%', 'user:名前 🗝️', 'user:x y'];
  const records = usageRecords(40, (index) => ({
    model: models[index % models.length] ?? '',
    account: accounts[index % accounts.length] ?? '',
  }));
  await store.usage.recordUsage(records);
  await isExact(t, store, records);
  const more = usageRecords(40, (index) => ({
    model: models[index % models.length] ?? '',
    account: accounts[index % accounts.length] ?? '',
    entry: entryAt(100 + index),
  }));
  await store.usage.recordUsage(more);
  await isExact(t, store, [...records, ...more]);
}

async function addsLargeNumbers(t: ExecutionContext, store: Store): Promise<void> {
  const records = usageRecords(5, (index) => ({ promptTokens: 2_000_000_000, completionTokens: 2 ** 50 + index }));
  for (const record of records) await store.usage.recordUsage([record]);
  await isExact(t, store, records);
  t.is((await store.usage.findUsageSum('user:ann', '2026-12'))?.total.promptTokens, 10_000_000_000);
}

const pieces = [
  [0, 20],
  [0, 20],
  [0, 7],
  [7, 20],
  [19, 20],
  [15, 25],
  [0, 30],
  [3, 30],
] as const;

async function ignoresRepeats(t: ExecutionContext, store: Store): Promise<void> {
  const records = usageRecords(30, (index) => ({ account: `user:${index % 2}`, promptTokens: index }));
  let reached = 0;
  for (const [from, to] of pieces) {
    reached = Math.max(reached, to);
    await store.usage.recordUsage(records.slice(from, to));
    await isExact(t, store, records.slice(0, reached));
  }
  await store.usage.recordUsage([...records.slice(4, 6), ...records.slice(4, 6)]);
  await isExact(t, store, records);
}

async function countsOnceUnderAnotherEntry(t: ExecutionContext, store: Store): Promise<void> {
  const records = usageRecords(10, (index) => ({ promptTokens: index }));
  await store.usage.recordUsage(records);
  const again = records.map((record, index) => ({ ...record, entry: entryAt(100 + index), promptTokens: 1_000 }));
  await store.usage.recordUsage(again.slice(0, 3));
  await store.usage.recordUsage([...again, usageRecord({ entry: entryAt(200), requestId: 'req_new' })]);
  for (const record of records) t.deepEqual(await store.usage.findUsageRecord(record.requestId), record);
  const fresh = await store.usage.findUsageRecord('req_new');
  if (fresh === undefined) return t.fail('the new record in the same batch must be stored');
  await isExact(t, store, [...records, fresh]);

  // If it is in one batch twice, the first position counts.
  const twice = usageRecord({ entry: entryAt(300), account: 'user:bob' });
  await store.usage.recordUsage([twice, { ...twice, entry: entryAt(301) }]);
  t.like(await store.usage.findUsageSum('user:bob', '2026-12'), { total: { requests: 1 } });
}

/** A drainer died between records and sums, and then Redis lost its last writes: the old entry never comes back. */
async function countsTheUnsummed(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const [record] = usageRecords(1);
  if (record === undefined) return t.fail();
  await store.usage.recordUsage([record]);
  await home.removeSums();
  t.is(await store.usage.findUsageSum('user:ann', '2026-12'), undefined);
  await store.usage.recordUsage([{ ...record, entry: entryAt(50) }]);
  t.like(await store.usage.findUsageSum('user:ann', '2026-12'), { total: { requests: 1 }, lastEntry: entryAt(50) });
  t.deepEqual(await store.usage.findUsageRecord(record.requestId), record);
}

async function countsMisplaced(t: ExecutionContext, store: Store): Promise<void> {
  const late = usageRecords(3, (index) => ({ entry: entryAt(500 + index), promptTokens: 100 }));
  await store.usage.recordUsage(late);
  const early = usageRecords(20, (index) => ({ promptTokens: index, entry: entryAt(480 + index) }));
  // Before it, at its last entry (an emptied Redis can assign an id again), and after it in one batch.
  await store.usage.recordUsage(early.slice(0, 5));
  await isExact(t, store, [...early.slice(0, 5), ...late]);
  const same = usageRecord({ entry: entryAt(502) });
  const after = usageRecord({ entry: entryAt(503) });
  await store.usage.recordUsage([...early.slice(5), same, after]);
  await isExact(t, store, [...early, ...late, same, after]);
}

async function takesThousand(t: ExecutionContext, store: Store): Promise<void> {
  const records = usageRecords(1_000, (index) => ({ account: `user:${index % 37}`, model: `model-${index % 5}` }));
  await store.usage.recordUsage(records);
  await isExact(t, store, records);
}

async function takesNone(t: ExecutionContext, store: Store): Promise<void> {
  await t.notThrowsAsync(store.usage.recordUsage([]));
  const wrong = { ...usageRecord(), chargedTokens: -1 };
  await t.throwsAsync(store.usage.recordUsage([wrong]), { instanceOf: z.ZodError });
  t.is(await store.usage.findUsageRecord(wrong.requestId), undefined);
  t.is(await store.usage.findUsageSum('user:ann', '2026-12'), undefined);
}

async function repairs(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const records = usageRecords(10, (index) => ({ model: `m.${index % 2}` }));
  await store.usage.recordUsage(records);
  await home.spoilSums();
  const { kept, recomputed } = await store.usage.recomputeUsage('user:ann', '2026-12', '');
  t.notDeepEqual(kept, recomputed);
  t.deepEqual(recomputed, sumOf(records));
  t.true(await store.usage.repairUsage('user:ann', '2026-12', ''));
  await isExact(t, store, records);
}

async function repairsDetails(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const records = usageRecords(40, (index) => ({
    model: `m.${index % 2}`,
    keyId: `key_${index % 3}`,
    cachedTokens: index,
  }));
  await store.usage.recordUsage(records);
  await home.spoilDetails();
  const found = await store.usage.recomputeUsage('user:ann', '2026-12', '');
  t.deepEqual(found, { kept: sumOf(records), recomputed: sumOf(records), wrongDetails: 12 });
  t.true(await store.usage.repairUsage('user:ann', '2026-12', ''));
  await isExact(t, store, records);
  const more = usageRecords(5, (index) => ({ model: 'm.0', entry: entryAt(100 + index) }));
  await store.usage.recordUsage(more);
  await isExact(t, store, [...records, ...more]);
}

async function countsDetailsOnce(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const records = usageRecords(20, (index) => ({ model: `m.${index % 2}`, promptTokens: index }));
  await store.usage.recordUsage(records.slice(0, 10));
  await home.removeTotals();
  await store.usage.recordUsage(records);
  await isExact(t, store, records);
}

/** After such a repair, Redis was emptied: an entry that the repair has not read comes later. */
async function countsPassedInDetail(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const records = usageRecords(10);
  await store.usage.recordUsage(records);
  await home.moveDetails(entryAt(20));
  const late = usageRecord({ entry: entryAt(15) });
  await store.usage.recordUsage([late]);
  await isExact(t, store, [...records, late]);
}

async function repairsMissing(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const records = usageRecords(10);
  await store.usage.recordUsage(records);
  await home.removeSums();
  const nothing = { kept: undefined, recomputed: undefined, wrongDetails: 0 };
  t.deepEqual(await store.usage.recomputeUsage('user:ann', '2026-12', ''), nothing);
  const upTo = entryAt(7);
  const recomputed = { ...sumOf(records.slice(0, 7)), lastEntry: upTo };
  t.deepEqual(await store.usage.recomputeUsage('user:ann', '2026-12', upTo), { ...nothing, recomputed });
  t.true(await store.usage.repairUsage('user:ann', '2026-12', upTo));
  t.deepEqual(await store.usage.findUsageSum('user:ann', '2026-12'), recomputed);
  await store.usage.recordUsage(records);
  await isExact(t, store, records);
}

async function repairsNothing(t: ExecutionContext, store: Store): Promise<void> {
  const records = usageRecords(3);
  t.true(await store.usage.repairUsage('user:ann', '2026-12', entryAt(9)));
  t.is(await store.usage.findUsageSum('user:ann', '2026-12'), undefined);
  await store.usage.recordUsage(records);
  t.true(await store.usage.repairUsage('user:ann', '2026-12', entryAt(2)));
  await isExact(t, store, records);
}

async function leavesOutTheUnsummed(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const records = usageRecords(10);
  await store.usage.recordUsage(records);
  await home.removeSums();
  await store.usage.repairUsage('user:ann', '2026-12', entryAt(6));
  const { kept, recomputed } = await store.usage.recomputeUsage('user:ann', '2026-12', entryAt(3));
  t.deepEqual(kept, { ...sumOf(records.slice(0, 6)) });
  t.deepEqual(recomputed, kept);
  const all = await store.usage.recomputeUsage('user:ann', '2026-12', entryAt(20));
  t.deepEqual(all, { kept, recomputed: { ...sumOf(records), lastEntry: entryAt(20) }, wrongDetails: 0 });
}

async function recomputesPages(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  // At the end of a page, several records have the same entry.
  const records = usageRecords(600, (index) => ({
    entry: entryAt(index < 245 ? index : index < 255 ? 245 : index),
    promptTokens: index,
  }));
  await store.usage.recordUsage(records);
  await home.removeSums();
  t.true(await store.usage.repairUsage('user:ann', '2026-12', entryAt(599)));
  await isExact(t, store, records);
}

async function listsMonths(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const months = ['user:a', 'user:a b', 'user:b', 'user:é', 'device:1'].flatMap((account) =>
    ['2026-10-01', '2026-12-31'].map((day) => ({ account, admittedAt: new Date(day) })),
  );
  await store.usage.recordUsage(usageRecords(20, (index) => months[index % months.length] ?? {}));
  const expected = months.map(({ account, admittedAt }) => ({ account, month: admittedAt.toISOString().slice(0, 7) }));
  const byName = (all: readonly UsageMonth[]) => all.map(({ account, month }) => `${account} ${month}`).sort();
  const whole = await store.usage.listUsageMonths({ limit: 100 });
  t.deepEqual(byName(whole), byName(expected));

  for (const limit of [1, 3]) {
    const paged: UsageMonth[] = [];
    for (;;) {
      const page = await store.usage.listUsageMonths({ after: paged.at(-1), limit });
      t.true(page.length <= limit);
      if (page.length === 0) break;
      paged.push(...page);
    }
    t.deepEqual(paged, whole);
  }
  await home.removeSums();
  t.deepEqual(await store.usage.listUsageMonths({ limit: 100 }), whole);
}

async function removesOld(t: ExecutionContext, store: Store): Promise<void> {
  const days = ['2026-09-30', '2026-10-01', '2026-10-31', '2026-11-01'];
  const shape = (index: number) => ({
    admittedAt: new Date(days[index % 4] ?? ''),
    account: index % 8 < 4 ? 'user:ann' : 'user:bob',
  });
  const records = usageRecords(40, shape);
  await store.usage.recordUsage(records);
  t.is(await store.usage.removeUsageBefore('2026-09'), 0);

  const isOld = ({ month }: UsageRecord) => month < '2026-11';
  for (let removed = -1; removed !== 0; ) {
    const stored = await found(store, records);
    if (stored.some(isOld))
      await isSummed(t, store, records, 'while there are records, the sums still include all of them');
    t.is(stored.filter((record) => !isOld(record)).length, 10, 'no other record is removed');
    removed = await store.usage.removeUsageBefore('2026-11');
  }
  const left = records.filter(({ month }) => month === '2026-11');
  t.deepEqual(await found(store, records), left);
  await isExact(t, store, left);
  t.deepEqual(
    (await store.usage.listUsageMonths({ limit: 10 })).map(({ month }) => month),
    ['2026-11', '2026-11'],
  );
  const again = usageRecords(4, (index) => ({ ...shape(index), entry: entryAt(100 + index) })).slice(0, 3);
  await store.usage.recordUsage(again);
  await isExact(t, store, [...left, ...again]);
}

/** The records of this list that are stored. */
async function found(store: Store, records: readonly UsageRecord[]): Promise<UsageRecord[]> {
  const all: (UsageRecord | undefined)[] = [];
  // A few at a time: how long a store lets its callers queue is not tested here.
  for (let from = 0; from < records.length; from += 50) {
    const some = records.slice(from, from + 50);
    all.push(...(await Promise.all(some.map(({ requestId }) => store.usage.findUsageRecord(requestId)))));
  }
  return all.filter((record) => record !== undefined);
}

/** Asserts that these records and no others are stored, and that the sums and details are correct. */
export async function isExact(t: ExecutionContext, store: Store, records: readonly UsageRecord[]): Promise<void> {
  t.deepEqual(await found(store, records), [...records]);
  await isSummed(t, store, records);
  for (const { account, month } of monthsOf(records).map(sumOf)) {
    const { kept, recomputed, wrongDetails } = await store.usage.recomputeUsage(account, month, '');
    t.deepEqual(recomputed, kept, 'the store recomputes the same sum');
    t.is(wrongDetails, 0, 'and the same details');
  }
}

/** Asserts that the sum and the days of each account and month are those of these records. */
async function isSummed(
  t: ExecutionContext,
  store: Store,
  records: readonly UsageRecord[],
  message?: string,
): Promise<void> {
  for (const ofMonth of monthsOf(records)) {
    const expected = sumOf(ofMonth);
    t.deepEqual(await store.usage.findUsageSum(expected.account, expected.month), expected, message);
    t.deepEqual(await store.usage.findUsageDays(expected.account, expected.month), daysOf(ofMonth), message);
  }
}

function monthsOf(records: readonly UsageRecord[]): UsageRecord[][] {
  return [...Map.groupBy(records, ({ account, month }) => `${account} ${month}`).values()];
}
