import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { Registry } from 'prom-client';
import type { Redis } from '../../../shared/redis/connections.ts';
import { outboxKey, outboxMarksKey, partitionCount, partitionLockKey } from '../../../shared/redis/keys.ts';
import { storeUnavailable } from '../../../shared/store/documents.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import type { UsageStore } from '../../../shared/store/usage/usage-store.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import type { ExpireLeases } from '../../../workers/requests/expire-leases.ts';
import { createUsageDrainer } from '../../../workers/usage/usage-drainer.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { isExact } from '../../shared/store/usage-contract.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { accountOf, appendUsage } from '../../support/usage-events.ts';

const drainingProcess = fileURLToPath(new URL('drain-from-process.ts', import.meta.url));

type Given = {
  recordUsage?: UsageStore['recordUsage'];
  expireLeases?: ExpireLeases;
  shareKeptRoom?: () => Promise<void>;
  now?: () => number;
  outboxesEveryMs?: number;
};

const noLeases: ExpireLeases = async () => ({ ended: 0, nextMs: undefined });

function startDrainer(redis: Redis, store: Store, given: Given = {}) {
  const { log, lines } = recordedLog();
  const drainer = createUsageDrainer({
    redis,
    store: {
      recordUsage: (records) => (given.recordUsage ?? store.usage.recordUsage.bind(store))(records),
      recordRefusals: store.usage.recordRefusals,
      removeUsageBefore: (month) => store.usage.removeUsageBefore(month),
      removeOldHours: store.usage.removeOldHours,
    },
    workerId: `worker ${Math.random()}`,
    metrics: createWorkerMetrics(new Registry()),
    log,
    monthsKept: () => 24,
    expireLeases: given.expireLeases ?? noLeases,
    shareKeptRoom: given.shareKeptRoom ?? (async () => {}),
    now: given.now ?? (() => performance.now()),
    outboxesEveryMs: given.outboxesEveryMs ?? 200,
  });
  return { drainer, lines };
}

test('usage of all partitions reaches the store, and is trimmed from the outboxes only later', async (t) => {
  await using own = await openRedisDatabase();
  await using home = await createSqliteHome();
  await using store = await home.open();
  const accounts = Array.from({ length: partitionCount }, (_, partition) => accountOf(partition));
  const record = () => Promise.all(accounts.map((account) => appendUsage(own.redis, { account })));
  const records = await record();
  let nowMs = 0;
  const { drainer } = startDrainer(own.redis, store, { now: () => nowMs });
  await using _drainer = drainer;
  await until(() => isDrained(own.redis));
  records.push(...(await record()));
  await until(() => isDrained(own.redis));
  await isExact(t, store, inOrder(records));
  t.is(
    (await lengths(own.redis)).reduce((sum, length) => sum + length, 0),
    2 * partitionCount,
  );

  nowMs += 10_000;
  await until(async () => (await lengths(own.redis)).every((length) => length <= 1));
  nowMs += 10_000;
  await until(async () => (await lengths(own.redis)).every((length) => length === 0));
  t.is(await own.redis.hget(outboxMarksKey(5), 'trimmed'), await own.redis.hget(outboxMarksKey(5), 'drained'));
});

test('usage with a notification reaches the store at once, and other usage when its outbox is checked', async (t) => {
  await using own = await openRedisDatabase();
  await using home = await createSqliteHome();
  await using store = await home.open();
  const records = [
    await appendUsage(own.redis, { account: accountOf(3) }),
    await appendUsage(own.redis, { account: accountOf(4) }),
  ];
  const { drainer } = startDrainer(own.redis, store, { outboxesEveryMs: 60_000 });
  // A partition is also drained once when its lock is taken: that has happened to these two when their usage is in the store.
  await using _drainer = drainer;
  await until(async () => drainer.held().length === partitionCount && (await isDrained(own.redis)));
  t.false(drainer.notify(partitionCount), 'another worker holds it');
  const unheard = await appendUsage(own.redis, { account: accountOf(4) });
  records.push(await appendUsage(own.redis, { account: accountOf(3) }));
  t.true(drainer.notify(3));
  await until(
    async () => (await own.redis.hget(outboxMarksKey(3), 'drained')) !== null && !(await waits(own.redis, 3)),
  );
  t.true(await waits(own.redis, 4), 'there was no notification');
  await drainer[Symbol.asyncDispose]();

  const { drainer: looking } = startDrainer(own.redis, store);
  await using _looking = looking;
  await until(() => isDrained(own.redis));
  await isExact(t, store, inOrder([...records, unheard]));
});

test('usage of expired leases reaches the store at once', async (t) => {
  await using own = await openRedisDatabase();
  await using home = await createSqliteHome();
  await using store = await home.open();
  const records: Awaited<ReturnType<typeof appendUsage>>[] = [];
  const expireLeases: ExpireLeases = async (partition) => {
    if (partition !== 9 || records.length === 2) return { ended: 0, nextMs: undefined };
    records.push(await appendUsage(own.redis, { account: accountOf(9) }));
    return { ended: 1, nextMs: 0 };
  };
  const { drainer } = startDrainer(own.redis, store, { expireLeases, outboxesEveryMs: 60_000 });
  await using _drainer = drainer;
  await until(async () => records.length === 2 && (await isDrained(own.redis)));
  await isExact(t, store, inOrder(records));
});

test('usage waits while the store is unavailable, and reaches it afterwards', async (t) => {
  await using own = await openRedisDatabase();
  await using home = await createSqliteHome();
  await using store = await home.open();
  const records = await Promise.all(
    [1, 2, 3].map((partition) => appendUsage(own.redis, { account: accountOf(partition) })),
  );
  let away = true;
  let refused = 0;
  const recordUsage: UsageStore['recordUsage'] = async (batch) => {
    if (away) refused += 1;
    if (away) throw storeUnavailable(new Error('gone'));
    await store.usage.recordUsage(batch);
  };
  const { drainer, lines } = startDrainer(own.redis, store, { recordUsage });
  await using _drainer = drainer;
  await until(() => refused >= 3);
  t.deepEqual(await lengths(own.redis, [1, 2, 3]), [1, 1, 1]);
  away = false;
  await until(() => isDrained(own.redis));
  await isExact(t, store, inOrder(records));
  t.deepEqual(
    lines.map(({ level, message }) => [level, message]),
    [
      ['warn', 'the store is unavailable; usage waits in the outbox'],
      ['info', 'the store is available again; usage is drained'],
    ],
  );
});

test('leases expire in each partition that is held, and a failure stops nothing else', async (t) => {
  await using own = await openRedisDatabase();
  await using home = await createSqliteHome();
  await using store = await home.open();
  const tended = new Map<number, number>();
  const expireLeases = async (partition: number) => {
    tended.set(partition, (tended.get(partition) ?? 0) + 1);
    if (partition % 2 === 0) throw new Error('not now');
    return { ended: 0, nextMs: 0 };
  };
  const { drainer, lines } = startDrainer(own.redis, store, { expireLeases });
  await using _drainer = drainer;
  await until(() => tended.size === partitionCount && [...tended.values()].some((times) => times >= 2));
  t.true(lines.every(({ level, message }) => level === 'warn' && message === 'expiring leases failed; trying again'));
  t.true(lines.length > 0);
});

test('disposing of a drainer ends it at once, also during a call, and releases its partitions', async (t) => {
  await using own = await openRedisDatabase();
  await using home = await createSqliteHome();
  await using store = await home.open();
  await appendUsage(own.redis, { account: accountOf(1) });
  const never = Promise.withResolvers<void>();
  const called = Promise.withResolvers<void>();
  const recordUsage = async () => {
    called.resolve();
    await never.promise;
  };
  const { drainer } = startDrainer(own.redis, store, { recordUsage });
  await called.promise;
  await drainer[Symbol.asyncDispose](); // the call never ends
  t.deepEqual(await own.redis.keys('*:lock'), []);
  never.resolve();

  const { drainer: next } = startDrainer(own.redis, store);
  await using _next = next;
  await until(() => isDrained(own.redis));
});

test('drainers that are killed at any time lose nothing and count nothing twice', async (t) => {
  t.timeout(120_000);
  await using own = await openRedisDatabase();
  await using home = await createSqliteHome();
  await using store = await home.open();
  const accounts = [2, 2, 7, 11, 30].map(accountOf);
  const shape = (index: number) => ({
    account: accounts[index % 5] ?? '',
    promptTokens: index,
    model: `m.${index % 3}`,
  });
  const records: Awaited<ReturnType<typeof appendUsage>>[] = [];
  // Not all at once: on a slow machine, the connection would be silent for too long, and the call would be sent again.
  while (records.length < 5_000) {
    const some = Array.from({ length: 500 }, (_, index) => appendUsage(own.redis, shape(records.length + index)));
    records.push(...(await Promise.all(some)));
  }
  for (let round = 1; round <= 5; round += 1) {
    const drain = spawn(process.execPath, [drainingProcess, own.url, home.url, `killed ${round}`], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exited = once(drain, 'exit');
    let lines = 0;
    for await (const _line of createInterface({ input: drain.stdout })) {
      lines += 1;
      if (lines === round) setTimeout(() => drain.kill('SIGKILL'), Math.random() * 10);
    }
    await exited;
    // As if the lock had expired, so that the next drainer does not wait for it.
    for (let partition = 0; partition < partitionCount; partition += 1)
      await own.redis.del(partitionLockKey(partition));
  }
  const { drainer } = startDrainer(own.redis, store);
  await using _drainer = drainer;
  await until(() => isDrained(own.redis));
  await isExact(t, store, inOrder(records));
});

function inOrder<Entry extends { entry: string }>(records: readonly Entry[]): Entry[] {
  return records.toSorted((one, other) => (one.entry < other.entry ? -1 : 1));
}

async function lengths(redis: Redis, partitions = Array.from({ length: partitionCount }, (_, index) => index)) {
  return Promise.all(partitions.map((partition) => redis.xlen(outboxKey(partition))));
}

/** True if every entry of every outbox is drained. */
async function isDrained(redis: Redis): Promise<boolean> {
  const waiting = await Promise.all(Array.from({ length: partitionCount }, (_, partition) => waits(redis, partition)));
  return !waiting.includes(true);
}

/** True if the partition has an entry that is not drained. */
async function waits(redis: Redis, partition: number): Promise<boolean> {
  const drained = (await redis.hget(outboxMarksKey(partition), 'drained')) ?? '0-0';
  return (await redis.xrange(outboxKey(partition), `(${drained}`, '+', 'COUNT', 1)).length > 0;
}

/** Waits until ava's own timeout at most. */
async function until(claim: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await claim())) await sleep(20);
}
