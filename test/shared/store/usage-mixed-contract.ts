import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import type { ApiError } from '../../../shared/errors.ts';
import type { Store } from '../../../shared/store/store.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import type { UsageMonth } from '../../../shared/store/usage/usage-sums.ts';
import { openRelease } from '../../support/earlier-releases.ts';
import { sized } from '../../support/size.ts';
import type { Contract, StoreHome } from './store-contract.ts';
import { inOrder, piecesOf, placesOf } from './usage-reads-contract.ts';
import { daysOf, entryAt, sumOf, usageRecord, usageRecords } from './usage-records.ts';

/** What a home offers beyond the contract of stores: it reads documents or rows as they are stored. */
export type MixedHome = StoreHome & {
  /** The counts of every detail, by the JSON of account, month, day, model, key and endpoint. */
  readDetails(): Promise<Record<string, { requests: number; cachedTokens: number }>>;
  /** Bytes of the largest document of a month's total; undefined if the store has no documents. */
  largestSum(): Promise<number | undefined>;
};

/** The calls of the previous release's store that these tests use. */
type PreviousSum = Awaited<ReturnType<Store['findUsageSum']>> & { days: ReturnType<typeof daysOf> };
type PreviousStore = AsyncDisposable &
  Pick<Store, 'recordUsage' | 'repairUsage' | 'ping'> & {
    findUsageSum(account: string, month: string): Promise<PreviousSum | undefined>;
  };
type Release = { openPrevious(): Promise<PreviousStore>; home: MixedHome; store: Store };
type Proof = (t: ExecutionContext, release: Release) => Promise<void>;

const month = '2026-12';

/** The guarantees for a store that this and the previous release use at the same time. */
export function testMixedUsageContract({
  test,
  createHome,
}: Pick<Contract, 'test'> & { createHome: () => Promise<MixedHome> }): void {
  const prove = (title: string, proof: Proof) =>
    test(title, async (t) => {
      t.timeout(180_000);
      await using release = await openRelease('before details');
      const { openStore } = await import(join(release.root, 'shared/open-store.ts'));
      await using home = await createHome();
      await using store = await home.open();
      await proof(t, { home, store, openPrevious: () => openStore(home.url, { log: { warn() {} } }) });
    });
  prove('usage of both releases in turn is counted once in sums and details', countsInTurn);
  prove(
    'a store of the previous release is shown correctly before, while and after its details are completed',
    migrates,
  );
  prove('reports complete a short month, and are refused until a long one is complete', reportsWhileMigrating);
  prove('months are completed from the newest on, and the previous release still shows them', keepsClosedMonths);
  prove('both releases drain at random with calls cut off: sums and details match the records', survivesCuts);
  prove('after a rollback totals are exact, and a repair by the previous release is followed', survivesRollback);
  prove('a month of thousands of models is written, and its sum stays small', takesManyModels);
}

async function countsInTurn(t: ExecutionContext, { store, openPrevious }: Release): Promise<void> {
  await using previous = await openPrevious();
  const records = usageRecords(120, odd('user:ann'));
  for (let from = 0; from < records.length; from += 10) {
    await (from % 20 === 0 ? previous : store).recordUsage(records.slice(from, from + 10));
    const stored = records.slice(0, from + 10);
    t.deepEqual(await store.findUsageSum('user:ann', month), sumOf(stored));
    t.deepEqual(await store.findUsageDays('user:ann', month), daysOf(stored));
    t.deepEqual((await previous.findUsageSum('user:ann', month))?.total, sumOf(stored).total);
  }
}

async function reportsWhileMigrating(t: ExecutionContext, { store, openPrevious }: Release): Promise<void> {
  await using previous = await openPrevious();
  const records = ['user:small', 'user:large'].flatMap((account) =>
    usageRecords(account === 'user:large' ? 3_000 : 300, (index) => ({
      ...{ account, model: `model-${index % 9}` },
      admittedAt: new Date(Date.UTC(2026, 11, 1 + (index % 30))),
    })),
  );
  await previous.recordUsage(records);
  const range = { start: '2026-12-02', end: '2026-12-20' };
  const read = async (account: string) => (await piecesOf(store.usageDetails.read({ account, ...range }))).flat();
  const readAll = async () => (await piecesOf(store.usageDetails.readAll(range))).flat();
  const expected = placesOf(records, range);
  await t.throwsAsync(readAll(), { code: 'SERVICE_UNAVAILABLE' });
  await t.throwsAsync(read('user:large'), { code: 'SERVICE_UNAVAILABLE' });
  t.deepEqual(inOrder(await read('user:small')), inOrder(expected.filter(({ account }) => account === 'user:small')));
  await t.throwsAsync(readAll(), { code: 'SERVICE_UNAVAILABLE' }, 'one account is missing');
  for (const [start, end] of [
    ['2026-11-01', '2026-11-30'],
    ['2027-01-01', '2027-01-31'],
  ] as const) {
    t.deepEqual((await piecesOf(store.usageDetails.readAll({ start, end }))).flat(), [], 'another month is complete');
  }
  for (const [start, end] of [
    ['2026-11-30', '2026-12-01'],
    ['2026-12-31', '2027-01-01'],
  ] as const) {
    await t.throwsAsync(piecesOf(store.usageDetails.readAll({ start, end })), { code: 'SERVICE_UNAVAILABLE' });
  }
  t.true(await store.completeUsageDetails({ account: 'user:large', month }));
  t.deepEqual(inOrder(await readAll()), inOrder(expected));
}

async function migrates(t: ExecutionContext, { store, home, openPrevious }: Release): Promise<void> {
  await using previous = await openPrevious();
  const accounts = ['user:small', 'user:large', 'user:two'];
  const of = (account: string) =>
    usageRecords(account === 'user:large' ? 3_000 : 300, (index) => ({
      ...{ account, model: `model-${index % 500}`, keyId: `key_${index % 2}`, cachedTokens: index % 3 },
      admittedAt: new Date(Date.UTC(2026, 11, 1 + (index % 30))),
    }));
  const stored = new Map(accounts.map((account) => [account, of(account)]));
  await Promise.all([...stored.values()].map((records) => previous.recordUsage(records)));
  const isShown = async () => {
    for (const [account, records] of stored) {
      t.deepEqual(await store.findUsageSum(account, month), sumOf(records));
      t.deepEqual(await store.findUsageDays(account, month), daysOf(records));
    }
  };
  await isShown();
  t.is(Object.keys(await home.readDetails()).length, 0, 'reading does not migrate');

  let place = 5_000;
  const recordMore = async (by: Pick<Store, 'recordUsage'>) => {
    for (const [account, records] of stored) {
      const more = usageRecords(20, (index) => ({ account, model: `model-${index}`, entry: entryAt(place + index) }));
      place += more.length;
      await by.recordUsage(more);
      records.push(...more);
    }
  };
  await recordMore(previous);
  await recordMore(store);
  for (const account of accounts) {
    const { total } = sumOf(stored.get(account) ?? []);
    t.deepEqual((await store.findUsageSum(account, month))?.total, total, 'the sum does not wait for details');
  }
  await Promise.all([complete(store), complete(store), recordMore(store)]);
  await recordMore(previous);
  await complete(store);
  await isShown();
  await isDetailed(t, { store, home }, [...stored.values()].flat());
  await recordMore(store);
  await isDetailed(t, { store, home }, [...stored.values()].flat());
  const largest = await home.largestSum();
  if (largest !== undefined) t.true(largest < 1_000, `${largest} bytes`);
}

async function keepsClosedMonths(t: ExecutionContext, { store, openPrevious }: Release): Promise<void> {
  await using previous = await openPrevious();
  const months = ['2026-10', '2026-11', '2026-12'];
  const stored = months.flatMap((month) =>
    ['user:ann', 'user:bob'].map((account) =>
      usageRecords(40, (index) => ({ ...odd(account)(index), admittedAt: new Date(`${month}-0${1 + (index % 7)}`) })),
    ),
  );
  for (const records of stored) await previous.recordUsage(records);
  const places = await complete(store);
  t.deepEqual(
    places.map(({ month }) => month),
    months.toReversed().flatMap((month) => [month, month]),
    'newest months first',
  );
  for (const records of stored) {
    const { account, month, total } = sumOf(records);
    t.deepEqual(await store.findUsageDays(account, month), daysOf(records));
    const found = await previous.findUsageSum(account, month);
    t.deepEqual({ total: found?.total, days: found?.days }, { total, days: daysOf(records) });
  }
}

/** Two outboxes, as if Redis was emptied: the second one has a clock that is behind, and repeats some requests. */
async function survivesCuts(t: ExecutionContext, { store, home, openPrevious }: Release): Promise<void> {
  let cuts = 0;
  const all: UsageRecord[] = [];
  for (let round = 0; round < sized(2, 4) || (cuts === 0 && round < 10); round += 1) {
    const account = `user:${round}`;
    const first = usageRecords(200, odd(account));
    const second = usageRecords(100, (index) => ({ ...odd(account)(index), entry: entryAt(100 + index) }));
    const again = first.filter((_, index) => index % 10 === 0);
    const repeated = again.map((record, index) => ({ ...record, entry: entryAt(250 + index) }));
    const outboxes = [first, [...second, ...repeated]].map((records) => ({ records, drained: 0 }));
    const drainers = outboxes.flatMap((outbox) => [home.open, openPrevious].map((open) => ({ outbox, open })));
    let draining = true;
    const completing = (async () => {
      for (; draining; await nextTurn()) await complete(store);
    })();
    try {
      await Promise.all(
        drainers.map(async ({ outbox, open }) => {
          while (outbox.drained < outbox.records.length) cuts += await drainUntilCut(open, outbox);
        }),
      );
    } finally {
      draining = false;
      await completing;
    }
    all.push(...outboxes.flatMap(({ records }) => records));
  }
  t.log(`${cuts} calls were cut off`);
  t.true(cuts > 0);
  await complete(store);
  const stored = await Promise.all(
    [...new Set(all.map(({ requestId }) => requestId))].map((id) => store.findUsageRecord(id)),
  );
  await isDetailed(
    t,
    { store, home },
    stored.filter((record) => record !== undefined),
  );
}

type Outbox = { records: readonly UsageRecord[]; drained: number };

/** Drains with its own store, which is closed at a random moment. Returns 1 if that cut off a call. */
async function drainUntilCut(
  open: () => Promise<AsyncDisposable & Pick<Store, 'recordUsage' | 'ping'>>,
  outbox: Outbox,
): Promise<number> {
  await using store = await open();
  await store.ping();
  const timer = setTimeout(() => void store[Symbol.asyncDispose](), Math.random() * 60);
  try {
    while (outbox.drained < outbox.records.length) {
      const from = outbox.drained;
      const batch = outbox.records.slice(from, from + 1 + Math.floor(Math.random() * 100));
      await store.recordUsage(batch);
      outbox.drained = Math.max(outbox.drained, from + batch.length);
    }
    return 0;
  } catch (error) {
    // The error class of the previous release is another one.
    if (!(error instanceof Error) || (error as Partial<ApiError>).code !== 'SERVICE_UNAVAILABLE') throw error;
    return 1;
  } finally {
    clearTimeout(timer);
  }
}

async function survivesRollback(t: ExecutionContext, { store, home, openPrevious }: Release): Promise<void> {
  const records = usageRecords(60, odd('user:ann'));
  await store.recordUsage(records.slice(0, 20));
  await using previous = await openPrevious();
  await previous.recordUsage(records.slice(20, 40));
  t.deepEqual((await previous.findUsageSum('user:ann', month))?.total, sumOf(records.slice(0, 40)).total);

  // It finds an entry out of order, and repairs the sum without the details.
  const misplaced = usageRecord({ ...odd('user:ann')(3), entry: entryAt(5), requestId: 'req_misplaced' });
  await previous.recordUsage([misplaced, ...records.slice(40, 50)]);
  const stored = [misplaced, ...records.slice(0, 50)];
  t.true(await previous.repairUsage('user:ann', month, ''));
  const repaired = await previous.findUsageSum('user:ann', month);
  t.deepEqual({ total: repaired?.total, days: repaired?.days }, { total: sumOf(stored).total, days: daysOf(stored) });

  t.deepEqual(await store.findUsageDays('user:ann', month), daysOf(stored));
  await store.recordUsage(records.slice(50));
  await complete(store);
  await isDetailed(t, { store, home }, [...stored, ...records.slice(50)]);
}

async function takesManyModels(t: ExecutionContext, { store, home }: Release): Promise<void> {
  const records = usageRecords(sized(2_000, 10_000), (index) => ({ model: `model-${index}` }));
  await store.recordUsage(records);
  t.deepEqual(await store.findUsageSum('user:ann', month), sumOf(records));
  t.is((await store.findUsageDays('user:ann', month)).length, records.length);
  const largest = await home.largestSum();
  if (largest !== undefined) t.true(largest < 1_000, `${largest} bytes`);
  const { kept, recomputed, wrongDetails } = await store.recomputeUsage('user:ann', month, '');
  t.deepEqual([kept, wrongDetails], [recomputed, 0]);
}

/** Different days, models, keys, endpoints and outcomes. */
function odd(account: string): (index: number) => Partial<UsageRecord> {
  return (index) => ({
    account,
    model: ['small', 'la"rge', 'a.b$c%,'][index % 3] ?? '',
    keyId: `key_${index % 4}`,
    endpoint: index % 5 === 0 ? '/v1/batches' : '/v1/chat/completions',
    admittedAt: new Date(Date.UTC(2026, 11, 1 + (index % 7), 12)),
    outcome: index % 11 === 0 ? 'failed' : 'completed',
    promptTokens: index,
    cachedTokens: index % 6,
  });
}

/** Returns what was incomplete, in the order of completion. */
async function complete(store: Store): Promise<UsageMonth[]> {
  const all: UsageMonth[] = [];
  for (let after: UsageMonth | undefined; ; ) {
    const { incomplete, last } = await store.listIncompleteUsage({ after, limit: 2 });
    for (const place of incomplete) await store.completeUsageDetails(place);
    all.push(...incomplete);
    if (last === undefined) return all;
    after = last;
  }
}

/** Asserts that sums, days and each detail are those of these records. */
async function isDetailed(
  t: ExecutionContext,
  { store, home }: Pick<Release, 'store' | 'home'>,
  records: readonly UsageRecord[],
): Promise<void> {
  t.deepEqual((await store.listIncompleteUsage({ after: undefined, limit: 1_000 })).incomplete, []);
  for (const ofAccount of Map.groupBy(records, ({ account }) => account).values()) {
    const { account, total } = sumOf(ofAccount);
    t.deepEqual((await store.findUsageSum(account, month))?.total, total, account);
    t.deepEqual(await store.findUsageDays(account, month), daysOf(ofAccount), account);
    const { kept, recomputed, wrongDetails } = await store.recomputeUsage(account, month, '');
    t.deepEqual([kept?.total, wrongDetails], [recomputed?.total, 0]);
  }
  const expected = Map.groupBy(records, ({ account, admittedAt, model, keyId, endpoint }) =>
    JSON.stringify([account, month, admittedAt.toISOString().slice(0, 10), model, keyId, endpoint]),
  );
  const counts = [...expected].map(([id, group]) => {
    const cachedTokens = group.reduce((sum, record) => sum + record.cachedTokens, 0);
    return [id, { requests: group.length, cachedTokens }] as const;
  });
  const stored = Object.entries(await home.readDetails()).filter(([, { requests }]) => requests > 0);
  t.deepEqual(Object.fromEntries(stored), Object.fromEntries(counts));
}
