import type { ExecutionContext } from 'ava';
import type { Store } from '../../../shared/store/records/store.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import type { DayRange } from '../../../shared/store/usage/usage-store.ts';
import { countsOf, type UsageDetail } from '../../../shared/store/usage/usage-tables.ts';
import { seededRandom } from '../../support/random.ts';
import { type Contract, provesOnStore } from './store-contract.ts';
import { usageRecords } from './usage-records.ts';

type Place = Pick<UsageDetail, 'account' | 'start' | 'model' | 'keyId' | 'endpoint' | 'counts'>;

/** The guarantees of every store for reading details of a range of days. */
export function testUsageReadsContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('details of any range of days are the sums of its records, of one account and of all', readsRanges);
  prove('the details of all accounts come account by account, in order of days, whatever their names', keepsOrder);
  prove('a month of more details than one read returns is read completely', readsPages);
  prove('without usage there are no details, in the first and the last year, too', readsNothing);
}

const years = [
  ...['2023-12-31T23:59:59.999Z', '2024-01-01T00:00:00.000Z', '2024-02-28T12:00:00Z', '2024-02-29T23:59:59.999Z'],
  ...['2024-03-01T00:00:00.000Z', '2024-12-31T23:59:59.999Z', '2025-01-01T00:00:00.000Z', '2025-02-28T12:00:00Z'],
];
const ranges: DayRange[] = [
  { start: '2024-02-29', end: '2024-02-29' },
  { start: '2024-02-28', end: '2024-03-01' },
  { start: '2024-01-01', end: '2024-12-31' },
  { start: '2023-12-31', end: '2024-12-30' },
  { start: '2023-12-31', end: '2024-01-01' },
  { start: '2024-12-31', end: '2025-01-01' },
  { start: '2024-03-02', end: '2024-12-30' },
  { start: '2025-02-28', end: '2026-02-28' },
];
/** In these, the order of bytes differs from that of JavaScript, of JSON, or of the ids of a month. */
const names = ['a', 'a!', 'a"', 'a"b', 'a\\', 'a\tb', 'a 1', 'a 2024-01', 'b', 'é', '\uffee', '🗝️', "'; --"];

async function readsRanges(t: ExecutionContext, store: Store): Promise<void> {
  const random = seededRandom(1);
  const records = usageRecords(400, () => ({
    ...{ account: `user:${random.oneOf(names)}`, admittedAt: new Date(random.oneOf(years)) },
    ...{ model: random.oneOf(names), keyId: random.oneOf(['key_1', 'key_2', '']), outcome: random.oneOf(outcomes) },
    ...{ endpoint: random.oneOf(['/v1/chat/completions', '/v1/embeddings']), overage: random() < 0.3 },
    ...{ promptTokens: Math.floor(random.between(1, 2 ** 40)), cachedTokens: Math.floor(random.between(0, 9)) },
  }));
  await store.usage.recordUsage(records);
  for (const range of ranges) {
    const expected = placesOf(records, range);
    t.deepEqual(inOrder((await piecesOf(store.usage.details.readAll(range))).flat()), inOrder(expected));
    for (const name of names) {
      const account = `user:${name}`;
      const found = (await piecesOf(store.usage.details.read({ account, ...range }))).flat();
      t.deepEqual(inOrder(found), inOrder(expected.filter((place) => place.account === account)));
      t.deepEqual(daysIn(found), daysIn(found).toSorted());
    }
  }
}

const outcomes = ['completed', 'failed', 'cancelled', 'lost'] as const;

async function keepsOrder(t: ExecutionContext, store: Store): Promise<void> {
  const accounts = names.map((name) => `user:${name}`);
  const months = ['2026-01', '2026-02', '2026-03'];
  // Each account has usage of one, of two or of all months.
  const records = usageRecords(accounts.length * 12, (index) => {
    const account = accounts[index % accounts.length] ?? '';
    const month = months[Math.floor(index / accounts.length) % ((accounts.indexOf(account) % 3) + 1)];
    return { account, admittedAt: new Date(`${month}-${String(10 + (index % 17))}T12:00:00Z`) };
  });
  await store.usage.recordUsage(records);
  const pieces = await piecesOf(store.usage.details.readAll({ start: '2026-01-01', end: '2026-03-31' }));
  const order = pieces.map((piece) => [...new Set(piece.map(({ account }) => account))]);
  t.true(
    order.every(({ length }) => length <= 1),
    'a piece is of one account',
  );
  const changes = order.flat().filter((account, index, all) => account !== all[index - 1]);
  t.is(changes.length, accounts.length, 'no account comes again');
  for (const account of accounts) {
    const days = daysIn(pieces.flat().filter((detail) => detail.account === account));
    t.deepEqual(days, days.toSorted());
  }
  t.deepEqual(inOrder(pieces.flat()), inOrder(placesOf(records, { start: '2026-01-01', end: '2026-03-31' })));
}

async function readsPages(t: ExecutionContext, store: Store): Promise<void> {
  const records = usageRecords(2_400, (index) => ({
    ...{ account: `user:${index % 3}`, model: `model-${index % 400}`, keyId: `key_${Math.floor(index / 1_200)}` },
    admittedAt: new Date(Date.UTC(2026, 10 + (index % 2), 5)),
  }));
  await store.usage.recordUsage(records);
  const range = { start: '2026-11-05', end: '2026-12-05' };
  t.deepEqual(inOrder((await piecesOf(store.usage.details.readAll(range))).flat()), inOrder(placesOf(records, range)));
  const pieces = await piecesOf(store.usage.details.read({ account: 'user:1', ...range }));
  t.deepEqual(inOrder(pieces.flat()), inOrder(placesOf(records, range).filter(({ account }) => account === 'user:1')));
  t.true(pieces.every(({ length }) => length <= 500));
  const { kept, recomputed, wrongDetails } = await store.usage.recomputeUsage('user:1', '2026-12', '');
  t.deepEqual([kept, wrongDetails], [recomputed, 0]);
}

async function readsNothing(t: ExecutionContext, store: Store): Promise<void> {
  for (const [start, end] of [
    ['2026-01-01', '2026-12-31'],
    ['0000-01-01', '0000-02-29'],
    ['9998-12-31', '9999-12-31'],
  ] as const) {
    t.deepEqual((await piecesOf(store.usage.details.readAll({ start, end }))).flat(), []);
    t.deepEqual((await piecesOf(store.usage.details.read({ account: 'user:ann', start, end }))).flat(), []);
  }
}

export async function piecesOf(details: AsyncIterable<UsageDetail[]>): Promise<Place[][]> {
  const pieces = await Array.fromAsync(details);
  return pieces.map((piece) =>
    piece.map(({ account, start, model, keyId, endpoint, counts }) => ({
      account,
      start,
      model,
      keyId,
      endpoint,
      counts,
    })),
  );
}

/** What the details of these days must be, computed from the records alone. */
export function placesOf(records: readonly UsageRecord[], { start, end }: DayRange): Place[] {
  const groups = Map.groupBy(records, ({ account, admittedAt, model, keyId, endpoint }) =>
    JSON.stringify([account, admittedAt.toISOString().slice(0, 10), model, keyId, endpoint]),
  );
  const places = [...groups].map(([key, group]) => {
    const [account, start, model, keyId, endpoint] = JSON.parse(key) as [string, string, string, string, string];
    return { account, start, model, keyId, endpoint, counts: countsOf(group) };
  });
  return places.filter((place) => place.start >= start && place.start <= end);
}

export function inOrder(places: readonly Place[]): Place[] {
  const keyOf = ({ account, start, model, keyId, endpoint }: Place) =>
    JSON.stringify([account, start, model, keyId, endpoint]);
  return places.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
}

function daysIn(places: readonly Place[]): string[] {
  return places.map(({ start }) => start);
}
