import type { ExecutionContext } from 'ava';
import type { Store } from '../../../shared/store/records/store.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import { countsOf, type Refusals, type UsageDetail } from '../../../shared/store/usage/usage-tables.ts';
import { seededRandom } from '../../support/random.ts';
import { type Contract, provesOnStore, type StoreHome, storeTime } from './store-contract.ts';
import { isExact } from './usage-contract.ts';
import { entryAt, usageRecord, usageRecords } from './usage-records.ts';

/** The guarantees of every store for the details of hours, and for refusals. */
export function testUsageHoursContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('hours of any range are the sums of its records, by how they ended, of one account and of all', sumsHours);
  prove('further combinations of a full hour are counted together, also by a repair', countsTogether);
  prove('hours that are no longer kept are neither written nor compared, and are removed', removesOldHours);
  prove('refusals are counted once for each entry, however often it comes', countsRefusalsOnce);
  prove(
    'refusals of an hour are summed by code over all accounts, or also by account, and removed with their hour',
    sumsRefusals,
  );
}

const codes = ['completed', 'UPSTREAMS_EXHAUSTED', 'DEADLINE_EXCEEDED'];

async function sumsHours(t: ExecutionContext, store: Store): Promise<void> {
  const random = seededRandom(7);
  const records = usageRecords(300, () => {
    const code = random.oneOf(codes);
    return {
      account: random.oneOf(['user:ann', 'user:bob']),
      model: random.oneOf(['small-chat', 'large-chat']),
      admittedAt: new Date(Date.UTC(2026, 11, 5, Math.floor(random.between(0, 30)), 59, 59, 999)),
      firstTokenMs: random.oneOf([null, 0, 50, 51, 30_000, 30_001]),
      ...(code === 'completed' ? {} : { outcome: 'failed' as const, code, status: 503 }),
    };
  });
  await store.usage.recordUsage(records);
  for (const [start, end] of [
    ['2026-12-05T00', '2026-12-06T23'],
    ['2026-12-05T07', '2026-12-06T02'],
    ['2026-12-05T09', '2026-12-05T09'],
  ] as const) {
    const found = await hoursOf(store, { account: 'user:ann', start, end });
    const isWanted = ({ account, admittedAt }: UsageRecord) => account === 'user:ann' && within(admittedAt, start, end);
    t.deepEqual(found.map(countedIn).sort(byText), expectedOf(records.filter(isWanted)));
  }
  const hour = '2026-12-05T09';
  const ofHour = records.filter(({ admittedAt }) => within(admittedAt, hour, hour));
  const { usage, refusals } = await store.usage.sumHour(hour, ['account', 'code']);
  const expected = Map.groupBy(ofHour, ({ account, code = 'completed' }) => JSON.stringify([account, code]));
  t.deepEqual(
    Object.fromEntries(usage.map(({ account, code, counts }) => [JSON.stringify([account, code]), counts])),
    Object.fromEntries([...expected].map(([key, group]) => [key, countsOf(group)])),
  );
  t.deepEqual(
    (await store.usage.sumHour(hour, [])).usage.map(({ counts }) => counts),
    [countsOf(ofHour)],
  );
  t.deepEqual(refusals, []);
  t.deepEqual((await store.usage.sumHour('2026-12-01T00', [])).usage, []);
}

function within(time: Date, start: string, end: string): boolean {
  const hour = time.toISOString().slice(0, 13);
  return hour >= start && hour <= end;
}

const byText = (one: readonly [string, unknown], other: readonly [string, unknown]) => (one[0] < other[0] ? -1 : 1);

function countedIn({ start, model, keyId, endpoint, code, counts }: UsageDetail) {
  return [JSON.stringify([start, model, keyId, endpoint, code]), counts] as const;
}

function expectedOf(records: readonly UsageRecord[]) {
  const places = Map.groupBy(records, ({ admittedAt, model, keyId, endpoint, code = 'completed' }) =>
    JSON.stringify([admittedAt.toISOString().slice(0, 13), model, keyId, endpoint, code]),
  );
  return [...places].map(([place, group]) => [place, countsOf(group)] as const).sort(byText);
}

async function hoursOf(store: Store, range: { account: string; start: string; end: string }): Promise<UsageDetail[]> {
  return (await Array.fromAsync(store.usage.details.read({ unit: 'hour', ...range }))).flat();
}

async function countsTogether(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const records = usageRecords(2_100, (index) => ({ keyId: `key_${index}` }));
  const again = usageRecords(3, (index) => ({ keyId: `key_${index * 1_049}`, entry: entryAt(3_000 + index) }));
  await store.usage.recordUsage(records.slice(0, 1_950));
  await store.usage.recordUsage([...records.slice(1_950), ...again]);
  const hour = '2026-12-05T10';
  const look = async () => {
    const found = await hoursOf(store, { account: 'user:ann', start: hour, end: hour });
    const requestsOf = (keyId: string) => found.find((detail) => detail.keyId === keyId)?.counts.requests;
    t.is(found.length, 2_001);
    t.deepEqual(['key_0', 'key_1049', 'key_1999', 'key_2000', 'other'].map(requestsOf), [2, 2, 1, undefined, 101]);
    await isExact(t, store, [...records, ...again]);
  };
  await look();
  await home.removeSums();
  t.true(await store.usage.repairUsage('user:ann', '2026-12', entryAt(3_002)));
  await look();
}

const dayMs = 86_400_000;
const daysAgo = (days: number) => new Date(storeTime - days * dayMs);

async function removesOldHours(t: ExecutionContext, store: Store): Promise<void> {
  const ages = [0, 30, 60, 61.1, 100];
  const records = ages.map((days, index) => usageRecord({ admittedAt: daysAgo(days), entry: entryAt(index + 1) }));
  await store.usage.recordUsage(records);
  const all = { account: 'user:ann', start: '2026-01-01T00', end: '2026-12-31T23' };
  t.is((await hoursOf(store, all)).length, 3);
  await isExact(t, store, records);

  const later = storeTime + 10 * dayMs;
  while ((await store.usage.removeOldHours(later)) > 0);
  t.is((await hoursOf(store, all)).length, 2);
  t.is(await store.usage.removeOldHours(later), 0);
}

const refusals = (given: Partial<Refusals> = {}): Refusals => ({
  account: 'user:ann',
  start: '2026-12-05T10',
  keyId: 'key_1',
  code: 'rate_limit_exceeded',
  requests: 1,
  entry: entryAt(1),
  ...given,
});

const readRefusals = async (store: Store, account: string, start = '2026-12-01T00', end = '2026-12-31T23') =>
  (await Array.fromAsync(store.usage.readRefusals({ account, start, end }))).flat();

async function countsRefusalsOnce(t: ExecutionContext, store: Store): Promise<void> {
  const entries = Array.from({ length: 10 }, (_, index) => [
    refusals({ requests: index + 1, entry: entryAt(index) }),
    refusals({ code: 'VALIDATION_ERROR', entry: entryAt(index) }),
  ]);
  await store.usage.recordRefusals(entries.slice(0, 4).flat());
  await store.usage.recordRefusals(entries.flat());
  await store.usage.recordRefusals(entries.slice(2, 7).flat());
  const entry = entryAt(9);
  t.deepEqual(await readRefusals(store, 'user:ann'), [
    refusals({ code: 'VALIDATION_ERROR', requests: 10, entry }),
    refusals({ requests: 55, entry }),
  ]);
  t.deepEqual(await readRefusals(store, 'user:ann', '2026-12-05T11'), []);
  t.deepEqual(await readRefusals(store, 'user:bob'), []);
}

async function sumsRefusals(t: ExecutionContext, store: Store): Promise<void> {
  const old = `${daysAgo(62).toISOString().slice(0, 11)}12`;
  await store.usage.recordRefusals([
    refusals({ requests: 3 }),
    refusals({ account: 'user:bob', keyId: '', requests: 4, entry: entryAt(2) }),
    refusals({ account: '', keyId: '', code: 'INVALID_KEY', requests: 5, entry: entryAt(3) }),
    refusals({ start: '2026-12-05T11', requests: 6, entry: entryAt(4) }),
    refusals({ start: old, entry: entryAt(5) }),
  ]);
  const { refusals: found } = await store.usage.sumHour('2026-12-05T10', []);
  t.deepEqual(Object.fromEntries(found.map(({ code, requests }) => [code, requests])), {
    rate_limit_exceeded: 7,
    INVALID_KEY: 5,
  });
  const { refusals: byAccount } = await store.usage.sumHour('2026-12-05T10', ['account', 'model']);
  t.deepEqual(byAccount.map(({ account, code, requests }) => `${account} ${code} ${requests}`).sort(), [
    ' INVALID_KEY 5',
    'user:ann rate_limit_exceeded 3',
    'user:bob rate_limit_exceeded 4',
  ]);
  t.deepEqual(await readRefusals(store, 'user:ann', old), [
    refusals({ requests: 3 }),
    refusals({ start: '2026-12-05T11', requests: 6, entry: entryAt(4) }),
  ]);
  const inMonths = Date.parse('2027-02-05T11:00:00Z');
  while ((await store.usage.removeOldHours(inMonths)) > 0);
  t.deepEqual(
    (await readRefusals(store, 'user:ann')).map(({ start }) => start),
    ['2026-12-05T11'],
  );
}
