import type { ExecutionContext } from 'ava';
import test from 'ava';
import { ulid } from 'ulid';
import type { FoundRequest, RequestFilter } from '../../../ingress/requests/find-requests.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import type { UsageStore } from '../../../shared/store/usage/usage-store.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { entryAt, usageRecord, usageRecords } from '../../shared/store/usage-records.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { openRequests, type RequestsSide } from '../../support/requests-side.ts';

let own: RedisDatabase;
let store: Store;
const parts = new AsyncDisposableStack();

test.before(async () => {
  own = parts.use(await openRedisDatabase());
  const home = parts.use(await createSqliteHome());
  store = parts.use(await home.open());
});

test.after.always(() => parts.disposeAsync());

const nextId = () => `req_${ulid()}`;

async function freshAccount() {
  const side = openRequests(own.redis, { account: `user:${ulid()}`, store });
  await side.prepare(new Date().toISOString().slice(0, 7));
  return side;
}

/** All pages, each as the ids of its requests. */
async function pagesOf(side: RequestsSide, limit: number, filter: RequestFilter = {}): Promise<string[][]> {
  const pages: string[][] = [];
  for (let before: FoundRequest | undefined; ; ) {
    const { requests, last, hasMore } = await side.list(side.account, { limit, before, filter });
    pages.push(requests.map(({ request }) => request.requestId));
    if (!hasMore) return pages;
    before = last;
  }
}

/** Requests in each place that overlap in time: stored, stored and still in the outbox, waiting, running, of both lanes. */
async function inEachPlace(side: RequestsSide): Promise<string[]> {
  const ids: string[] = [];
  const admit = async (lane: 'interactive' | 'batch' = 'interactive') => {
    const id = nextId() + (lane === 'batch' ? '-1' : '');
    await side.admit(id, { lane });
    ids.push(id);
    return id;
  };
  const running = [await admit(), await admit('batch')];
  const settle = async (count: number) => {
    for (let index = 0; index < count; index++) {
      const id = await admit();
      if (index === 1) running.push(await admit());
      await side.start(id);
      await side.settle(id, { model: index % 2 === 0 ? 'small-chat' : 'large-chat' });
    }
  };
  await settle(4);
  await side.drain();
  await side.trim();
  await settle(3);
  await side.drain();
  await settle(4);
  await side.start(running[0] ?? '');
  return ids;
}

/** By admission, and by id within a millisecond. */
async function expectedOrder(side: RequestsSide, ids: readonly string[]): Promise<string[]> {
  const found = await Promise.all(ids.map((id) => side.find(side.account, id)));
  const places = found.map((one) => [one?.admittedAt.getTime() ?? 0, one?.requestId ?? ''] as const);
  return places.sort(([at, id], [otherAt, otherId]) => otherAt - at || (id < otherId ? 1 : -1)).map(([, id]) => id);
}

async function comesInPages(
  t: ExecutionContext,
  side: RequestsSide,
  expected: readonly string[],
  filter: RequestFilter,
) {
  const { last } = await side.list(side.account, { limit: 100, filter });
  t.is(last?.requestId, expected.at(-1));
  for (const limit of [1, 2, 3, 7, expected.length, 100].filter((limit) => limit > 0)) {
    const pages = await pagesOf(side, limit, filter);
    t.deepEqual(pages.flat(), expected, `pages of ${limit}`);
    t.true(pages.slice(0, -1).every((page) => page.length === limit));
    t.is(pages.length, Math.max(1, Math.ceil(expected.length / limit)), 'no page more than needed');
  }
}

test('requests in all places are listed once, latest first, in pages of any size and with any filter', async (t) => {
  const [side, other] = [await freshAccount(), await freshAccount()];
  await inEachPlace(other);
  const ids = await inEachPlace(side);
  const expected = await expectedOrder(side, ids);
  t.is(new Set(expected).size, 16);
  await comesInPages(t, side, expected, {});
  const found = await Promise.all(expected.map((id) => side.find(side.account, id)));
  const where = (keep: (one: FoundRequest) => boolean) =>
    found.flatMap((one) => (one !== undefined && keep(one) ? [one.requestId] : []));
  await comesInPages(
    t,
    side,
    where(({ model }) => model === 'large-chat'),
    { model: 'large-chat' },
  );
  await comesInPages(
    t,
    side,
    where(({ state }) => state === 'ended'),
    { outcome: 'completed' },
  );
  await comesInPages(t, side, expected, { keyId: 'key_01' });
  await comesInPages(t, side, [], { keyId: 'key_02' });
  await comesInPages(t, side, [], { outcome: 'failed' });
});

test('requests are found by the code of their error, endpoint, batch, duration and time of admission', async (t) => {
  const side = await freshAccount();
  const at = (index: number) => new Date(Date.UTC(2026, 11, 5) + index * 1_000);
  const records = usageRecords(60, (index) => ({
    ...{ account: side.account, admittedAt: at(index), requestId: nextId(), entry: entryAt(index) },
    ...{ durationMs: index * 100, batch: index % 4 === 0 ? 'batch_1' : null },
    ...(index % 5 === 0 ? { outcome: 'failed' as const, code: 'DEADLINE_EXCEEDED', status: 504 } : {}),
    ...(index % 7 === 0 ? { endpoint: '/v1/embeddings' } : {}),
  }));
  await store.usage.recordUsage(records);
  const where = (keep: (record: (typeof records)[number], index: number) => boolean) =>
    records
      .filter(keep)
      .map(({ requestId }) => requestId)
      .toReversed();
  await comesInPages(
    t,
    side,
    where(({ code }) => code !== undefined),
    { code: 'DEADLINE_EXCEEDED' },
  );
  await comesInPages(
    t,
    side,
    where(({ code }) => code === undefined),
    { code: 'completed' },
  );
  await comesInPages(
    t,
    side,
    where(({ endpoint }) => endpoint === '/v1/embeddings'),
    { endpoint: '/v1/embeddings' },
  );
  await comesInPages(
    t,
    side,
    where(({ batch }) => batch !== null),
    { batch: 'batch_1' },
  );
  await comesInPages(
    t,
    side,
    where((_, index) => index > 40),
    { slowerThanMs: 4_000 },
  );
  await comesInPages(
    t,
    side,
    where((_, index) => index >= 10 && index < 20),
    { start: at(10), end: at(20) },
  );
  await comesInPages(
    t,
    side,
    where((_, index) => index >= 50),
    { start: at(50) },
  );
  await comesInPages(
    t,
    side,
    where((_, index) => index < 5),
    { end: at(5) },
  );
  await comesInPages(t, side, [], { start: at(60) });
});

test('lines of a batch that follow each other are one item, which counts them, also over several pages', async (t) => {
  const side = await freshAccount();
  const at = (index: number) => new Date(Date.UTC(2026, 11, 5) + index * 1_000);
  const records = usageRecords(12, (index) => ({
    ...{ account: side.account, admittedAt: at(index), entry: entryAt(index), requestId: nextId() },
    ...{ batch: index === 0 || index === 11 ? null : index < 8 ? 'batch_1' : 'batch_2', chargedTokens: 10 },
    outcome: index % 3 === 0 ? ('failed' as const) : ('completed' as const),
  }));
  await store.usage.recordUsage(records);
  const expected = [
    [records[11]?.requestId, undefined],
    [records[10]?.requestId, { requests: 3, failed: 1, chargedTokens: 30 }],
    [records[7]?.requestId, { requests: 7, failed: 2, chargedTokens: 70 }],
    [records[0]?.requestId, undefined],
  ];
  for (const limit of [1, 2, 3, 4, 20]) {
    const found: unknown[] = [];
    for (let before: FoundRequest | undefined, more = true; more; ) {
      const page = await side.list(side.account, { limit, before, filter: {}, isFolded: true });
      found.push(...page.requests.map(({ request, lines }) => [request.requestId, lines]));
      [before, more] = [page.last, page.hasMore];
    }
    t.deepEqual(found, expected, `pages of ${limit}`);
  }
  const lines = await side.list(side.account, { limit: 20, filter: { batch: 'batch_2' } });
  t.is(lines.requests.length, 3);
});

test('lines of batches that take turns are one item of a page for each batch', async (t) => {
  const side = await freshAccount();
  const records = usageRecords(8, (index) => ({
    ...{ account: side.account, admittedAt: new Date(Date.UTC(2026, 11, 5, 0, 0, index)), entry: entryAt(index) },
    ...{ requestId: nextId(), batch: index === 4 ? null : `batch_${index % 2}`, chargedTokens: 10 },
  }));
  await store.usage.recordUsage(records);
  const page = await side.list(side.account, { limit: 3, filter: {}, isFolded: true });
  t.deepEqual(
    page.requests.map(({ request, lines }) => [request.requestId, lines?.requests]),
    [
      [records[7]?.requestId, 4],
      [records[6]?.requestId, 3],
      [records[4]?.requestId, undefined],
    ],
  );
  t.false(page.hasMore);
  const first = await side.list(side.account, { limit: 2, filter: {}, isFolded: true });
  t.deepEqual(
    first.requests.map(({ lines }) => lines?.requests),
    [2, undefined],
  );
  const rest = await side.list(side.account, { limit: 3, before: first.last, filter: {}, isFolded: true });
  t.deepEqual(
    rest.requests.map(({ request, lines }) => [request.batch, lines?.requests]),
    [
      [null, undefined],
      ['batch_1', 2],
      ['batch_0', 2],
    ],
  );
});

test('requests of one millisecond are split between pages by their ids', async (t) => {
  const side = await freshAccount();
  const admittedAt = new Date('2026-12-05T10:00:00.000Z');
  const records = usageRecords(9, (index) => ({
    ...{ account: side.account, admittedAt, requestId: `req_01KBN4V4W0R2E9Z6Y5QH3T8MX${index}` },
  }));
  await store.usage.recordUsage(records);
  await comesInPages(t, side, records.map(({ requestId }) => requestId).toReversed(), {});
});

test('a page with a filter looks at a bounded number of requests, and the next page continues there', async (t) => {
  const side = await freshAccount();
  const at = (index: number) => new Date(Date.UTC(2026, 11, 5) + index * 1_000);
  const records = usageRecords(2_500, (index) => ({
    ...{ account: side.account, admittedAt: at(index), entry: entryAt(index) },
    outcome: index === 3 || index === 2_400 ? ('failed' as const) : ('completed' as const),
  }));
  await store.usage.recordUsage(records);
  let calls = 0;
  const usage = {
    ...store.usage,
    listUsageRecords: (...words: Parameters<UsageStore['listUsageRecords']>) => {
      calls++;
      return store.usage.listUsageRecords(...words);
    },
  };
  const counting = openRequests(own.redis, { account: side.account, store: { ...store, usage } });
  const first = await counting.list(side.account, { limit: 20, filter: { outcome: 'failed' } });
  t.deepEqual([first.requests.length, first.hasMore, calls], [1, true, 11]);
  const pages = await pagesOf(side, 20, { outcome: 'failed' });
  t.deepEqual(pages, [[records[2_400]?.requestId ?? ''], [], [records[3]?.requestId ?? '']]);
  t.is((await pagesOf(side, 1, { outcome: 'failed' })).flat().length, 2);
  t.deepEqual(
    (await pagesOf(side, 100)).map(({ length }) => length),
    Array(25).fill(100),
  );
});

test('an account without requests has one empty page', async (t) => {
  const side = await freshAccount();
  t.deepEqual(await pagesOf(side, 20), [[]]);
  t.like(await side.list('user:unknown', { limit: 1, filter: {} }), { hasMore: false, last: undefined });
});

test('a record of a request that came twice is listed once', async (t) => {
  const side = await freshAccount();
  const record = usageRecord({ account: side.account, requestId: nextId() });
  await store.usage.recordUsage([record, { ...record, entry: entryAt(9) }]);
  t.deepEqual(await pagesOf(side, 20), [[record.requestId]]);
});
