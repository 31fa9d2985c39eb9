import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import { Registry } from 'prom-client';
import { createSeed } from '../../../shared/limits/seed.ts';
import type { Redis } from '../../../shared/redis/connections.ts';
import { countersKey, outboxMarksKey, partitionOf } from '../../../shared/redis/keys.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import type { UsageMonth } from '../../../shared/store/usage/usage-record.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { createEndLeases, createExpireLeases } from '../../../workers/requests/expire-leases.ts';
import { checkMonth, type Drift, driftOf } from '../../../workers/usage/reconcile-month.ts';
import { reportOf } from '../../../workers/usage/run-reconcile.ts';
import { createUsageDrainer } from '../../../workers/usage/usage-drainer.ts';
import { timeouts } from '../../support/limits-side.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { type ReconcileHome, wrongBy } from './reconcile-homes.ts';
import { openReconcileSide } from './reconcile-side.ts';

type Given = { store: Store; home: ReconcileHome; redis: Redis; side: ReturnType<typeof openReconcileSide> };
type Contract = {
  test: (title: string, prove: (t: ExecutionContext) => Promise<void>) => void;
  createHome: () => Promise<ReconcileHome>;
};

/** What `reconcile` finds and repairs, with any store. */
export function testReconcileContract({ test, createHome }: Contract): void {
  const prove = (title: string, proof: (t: ExecutionContext, given: Given) => Promise<void>) =>
    test(title, async (t) => {
      await using own = await openRedisDatabase();
      await using home = await createHome();
      await using store = await home.open();
      await proof(t, { store, home, redis: own.redis, side: openReconcileSide(own.redis, store) });
    });
  prove('exact data has no drift, at every stage between Redis and the store', findsNothing);
  prove('a wrong sum is found with its difference, and repaired', findsWrongSums);
  prove('a wrong counter in Redis is found with its difference, and repaired', findsWrongCounters);
  prove('a counter that continued from a wrong sum is repaired with it, and reported once', findsBoth);
  prove('records that are about to be summed are no drift, and records that are never summed are', findsUnsummed);
  prove('months that are being removed are ignored', skipsRemoved);
  prove('no comparison finds false drift while requests are settled, drained and seeded', findsNothingUnderTraffic);
  prove('an empty store and an empty Redis have no drift', findsNobody);
}

async function findsNothing(t: ExecutionContext, { side, redis }: Given): Promise<void> {
  const ann = await side.openAccount('user:ann');
  for (const name of ['a', 'b', 'c']) await ann.use(name);
  await ann.use('over', { overage: true });
  await ann.useBefore('before', 1);
  await ann.useBefore('long before', 2);
  await side.drain();
  await ann.use('waiting');
  await ann.useBefore('waiting, before', 1);
  await ann.admit({ requestId: 'in flight' });

  const bob = await side.openAccount('user:bob');
  await bob.use('waiting', { tokens: 33 });
  const cold = await side.openAccount('user:cold');
  await cold.use('drained');
  await side.drain(['user:cold']);
  await redis.del(countersKey('user:cold'));

  const reconciled = await side.reconcile();
  t.like(reconciled, { accounts: 3, months: 6, found: { months: 0, tokens: 0 }, drifted: [] });
  t.is(reportOf(reconciled, false).at(-1), 'drift: 0');
}

async function findsWrongSums(t: ExecutionContext, { side, home, store }: Given): Promise<void> {
  const ways = ['too high', 'too low', 'missing', 'on another day'] as const;
  const accounts = new Map(ways.map((how) => [`user:${how}`, how]));
  for (const account of [...accounts.keys(), 'user:right']) {
    const { use, useBefore } = await side.openAccount(account);
    await useBefore('a', 2, { tokens: 20 });
    await useBefore('b', 2, { tokens: 30 });
    await use('c');
  }
  await side.drain();
  const before = await sumsOf(store);
  for (const [account, how] of accounts) await home.spoil(account, how);

  const found = await side.reconcile();
  const perMonth = { 'too high': [wrongBy, wrongBy], 'too low': [wrongBy, wrongBy], missing: [50, 10] };
  const expected = Object.entries(perMonth).flatMap(([how, tokens]) => tokens.map((each) => [`user:${how}`, each]));
  const drifts = found.drifted.map(tokensOf).sort();
  t.deepEqual(drifts, [...expected, ['user:on another day', 0], ['user:on another day', 0]].sort());
  t.like(found, { accounts: 5, found: { months: 8, tokens: 4 * wrongBy + 60 }, left: { months: 8 } });
  t.is(reportOf(found, false).at(-1), `drift: ${4 * wrongBy + 60} tokens in 8 account-months`);

  const repaired = await side.reconcile({ repair: true });
  t.like(repaired, { found: { months: 8 }, left: { months: 0, tokens: 0 } });
  t.is(reportOf(repaired, true).at(-1), 'drift: 0');
  t.deepEqual(await sumsOf(store), before);
  t.like(await side.reconcile(), { found: { months: 0 } });
}

async function findsWrongCounters(t: ExecutionContext, { side, redis }: Given): Promise<void> {
  const month = await side.monthsAgo(0);
  const last = await side.monthsAgo(1);
  const wrong = {
    'user:used': { field: `${month}:chargedTokens`, by: 5, tokens: 5 },
    'user:unused': { field: `${month}:chargedTokens`, by: -8, tokens: 8 },
    'user:reserved': { field: `${month}:reservedTokens`, by: 100, tokens: 0 },
    'user:overage': { field: `${month}:overageTokens`, by: 3, tokens: 0 },
    'user:last': { field: `${last}:chargedTokens`, by: 4, tokens: 4 },
    'user:only in Redis': { field: `${month}:chargedTokens`, by: 6, tokens: 6 },
    'user:right': { field: `${month}:chargedTokens`, by: 0, tokens: 0 },
  };
  for (const account of Object.keys(wrong)) {
    const { use, useBefore, admit } = await side.openAccount(account);
    await use('a', { tokens: 20 });
    await use('b', { tokens: 30, overage: true });
    await useBefore('c', 1, { tokens: 30 });
    if (account !== 'user:only in Redis') await side.drain([account]);
    await use('d', { tokens: 40 });
    await admit({ requestId: 'in flight', tokens: 70 });
  }
  const right = await countersOf(redis, Object.keys(wrong));
  for (const [account, { field, by }] of Object.entries(wrong)) await redis.hincrby(countersKey(account), field, by);

  const found = await side.reconcile();
  const expected = Object.entries(wrong).flatMap(([account, { by, tokens }]) => (by === 0 ? [] : [[account, tokens]]));
  t.deepEqual(found.drifted.map(tokensOf).sort(), expected.sort());
  t.like(found, { accounts: 7, found: { months: 6, tokens: 23 } });

  const repaired = await side.reconcile({ repair: true });
  t.like(repaired, { found: { months: 6 }, left: { months: 0, tokens: 0 } });
  t.deepEqual(await countersOf(redis, Object.keys(wrong)), right);
  t.like(await side.reconcile(), { found: { months: 0 } });
}

async function findsBoth(t: ExecutionContext, { side, home, redis }: Given): Promise<void> {
  const month = await side.monthsAgo(0);
  const { use, count } = await side.openAccount('user:ann');
  await use('a', { tokens: 40 });
  await side.drain();
  await use('waiting', { tokens: 2 });
  await home.spoil('user:ann', 'too high');
  await redis.del(countersKey('user:ann'));
  await count();
  t.is(await redis.hget(countersKey('user:ann'), `${month}:chargedTokens`), String(42 + wrongBy));

  const repaired = await side.reconcile({ repair: true });
  t.like(repaired, { found: { months: 1, tokens: wrongBy }, left: { months: 0 } });
  const [line = ''] = reportOf(repaired, true).filter((text) => text.includes('user:ann'));
  t.is(
    line,
    `  "user:ann" ${month}: the store has ${40 + wrongBy} tokens of 1 requests, recomputed 40 tokens of 1 requests; ` +
      `Redis counts ${42 + wrongBy} charged, 0 reserved, 0 overage, expected 42 charged, 0 reserved, 0 overage; repaired`,
  );
  t.is(await redis.hget(countersKey('user:ann'), `${month}:chargedTokens`), '42');
}

async function findsUnsummed(t: ExecutionContext, { side, home, store, redis }: Given): Promise<void> {
  const { use, outbox } = await side.openAccount('user:ann');
  await use('a', { tokens: 40 });
  await store.usage.recordUsage(await outbox());
  await home.spoil('user:ann', 'missing'); // as if the drainer had died between the record and the sum
  t.like(await side.reconcile(), { accounts: 1, months: 2, found: { months: 0 } });
  await side.drain();
  t.like(await side.reconcile(), { found: { months: 0 } });
  await home.spoil('user:ann', 'missing');
  t.like(await side.reconcile(), { found: { months: 1, tokens: 40 } }, 'it is drained, so it will never be summed');
  t.like(await side.reconcile({ repair: true }), { left: { months: 0 } });

  await home.spoil('user:ann', 'missing');
  await redis.flushdb();
  t.like(await side.reconcile(), { found: { months: 1, tokens: 40 } }, 'no outbox has it either');
  t.like(await side.reconcile({ repair: true }), { left: { months: 0 } });
  t.is((await store.usage.findUsageSum('user:ann', await side.monthsAgo(0)))?.total.chargedTokens, 40);
}

async function skipsRemoved(t: ExecutionContext, { side, home }: Given): Promise<void> {
  const ann = await side.openAccount('user:ann');
  await ann.useBefore('kept', 3);
  const bob = await side.openAccount('user:bob');
  await bob.useBefore('removed', 4);
  await bob.useBefore('removed, too', 15);
  await side.drain();
  for (const account of ['user:ann', 'user:bob']) await home.spoil(account, 'too low');
  t.like(await side.reconcile(), { accounts: 2, months: 5, found: { months: 1, tokens: wrongBy } });
}

async function findsNobody(t: ExecutionContext, { side }: Given): Promise<void> {
  const reconciled = await side.reconcile({ repair: true });
  t.deepEqual(reportOf(reconciled, true), ['accounts checked: 0', 'months checked: 0', 'found: 0', 'drift: 0']);
}

const tokensOf = ({ found }: Drift) => [found.account, driftOf(found)?.tokens];

async function sumsOf(store: Store) {
  const months = await store.usage.listUsageMonths({ limit: 100 });
  const read = async ({ account, month }: UsageMonth) => ({
    total: (await store.usage.findUsageSum(account, month))?.total,
    days: await store.usage.findUsageDays(account, month),
  });
  return Promise.all(months.map(read));
}

const countersOf = (redis: Redis, accounts: readonly string[]) =>
  Promise.all(accounts.map((account) => redis.hgetall(countersKey(account))));

type Traffic = { store: Store; redis: Redis; side: ReturnType<typeof openReconcileSide> };

const accounts = Array.from({ length: 12 }, (_, index) => `user:${index}`);
const drainers = 3;
const comparisonsMin = 15;
/** Trims all the time; usually an entry is trimmed 10 s after it was drained. */
const timesFaster = 10;

/** Fast enough for several requests during each check. Without a bound there would be more than can be recomputed. */
const paceMs = 15;

/** Every account uses the service all the time, and its counters are removed from Redis now and then. */
function startTraffic({ side, redis }: Traffic) {
  let isOver = false;
  let settled = 0;

  async function run(account: string): Promise<void> {
    const one = await side.openAccount(account);
    for (let turn = 0; !isOver; turn += 1) {
      const requestId = `request ${turn}`;
      const overage = turn % 5 === 0;
      const allowance = overage ? { tokensPerMonth: 0, overageEnabled: true } : {};
      while ((await one.admit({ requestId, tokens: 50 + turn, allowance })).outcome !== 'admitted') await one.count();
      if (turn % 7 === 0) await one.release(requestId);
      else {
        await one.start(requestId);
        await one.settle(requestId, { tokens: turn });
        settled += 1;
      }
      if (turn % 11 === 0) await one.useBefore(`before ${turn}`, 1, { tokens: turn });
      if (turn % 13 === 0) await redis.del(countersKey(account));
      await sleep(Math.random() * paceMs);
      if (turn % 17 === 0) await one.admit({ requestId: `lost ${turn}`, tokens: 20 });
    }
  }

  const all = Promise.all(accounts.map(run));
  return {
    settled: () => settled,
    async end() {
      isOver = true;
      await all;
    },
  };
}

function startDrainer({ redis, store }: Traffic) {
  const { log } = recordedLog();
  const metrics = createWorkerMetrics(new Registry());
  const requestMs = () => timeouts.requestMs;
  const expireLeases = createExpireLeases({
    redis,
    endLeases: createEndLeases(redis, { requestMs }),
    requestMs,
    metrics,
  });
  const now = () => performance.now() * timesFaster;
  const workerId = `drainer ${Math.random()}`;
  const shareKeptRoom = async () => {};
  return createUsageDrainer({
    ...{ redis, store: store.usage, workerId, metrics, log, monthsKept: () => 24, expireLeases, shareKeptRoom, now },
  });
}

/** Runs the complete comparison and single checks: a single check finds no drift that a second one does not find. */
export async function findsNothingUnderTraffic(t: ExecutionContext, given: Traffic): Promise<void> {
  t.timeout(180_000);
  const { side, store, redis } = given;
  const parts = { redis, store: store.usage, seed: createSeed({ redis, store: store.usage }) };
  const months = [await side.monthsAgo(0), await side.monthsAgo(1)];
  await using owned = new AsyncDisposableStack();
  for (let index = 0; index < drainers; index += 1) owned.use(startDrainer(given));
  const traffic = startTraffic(given);

  let comparisons = 0;
  let looks = 0;
  const partition = partitionOf(accounts[0] ?? '');
  const isTrimmed = async () => (await redis.hget(outboxMarksKey(partition), 'trimmed')) !== null;
  while (comparisons < comparisonsMin || !(await isTrimmed())) {
    const { found, drifted } = await side.reconcile();
    t.deepEqual([found.months, drifted], [0, []]);
    comparisons += 1;
    for (const month of months) {
      for (const look of await Promise.all(accounts.map((account) => checkMonth(parts, { account, month })))) {
        t.is(driftOf(look), undefined, JSON.stringify(look));
        looks += 1;
      }
    }
  }
  await traffic.end();
  t.true(traffic.settled() > 200, `${traffic.settled()} requests settled`);
  t.log(`${comparisons} comparisons and ${looks} looks during ${traffic.settled()} requests`);

  await side.drain();
  const reconciled = await side.reconcile();
  t.like(reconciled, { accounts: accounts.length, months: 2 * accounts.length, found: { months: 0 } });
}
