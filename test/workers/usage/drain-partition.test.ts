import test from 'ava';
import { Registry } from 'prom-client';
import { refusalFields, streamIdOf } from '../../../shared/jobs/usage-outbox.ts';
import { outboxKey, outboxMarksKey, outboxUnreadableKey } from '../../../shared/redis/keys.ts';
import { storeUnavailable } from '../../../shared/store/documents.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import type { UsageStore } from '../../../shared/store/usage/usage-store.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { createBackoff } from '../../../workers/upkeep/backoff.ts';
import { createDrainHeld, createDrainPartition, type DrainReport } from '../../../workers/usage/drain-partition.ts';
import { createTrimSchedule } from '../../../workers/usage/outbox.ts';
import { createSqliteHome, type SqliteHome } from '../../shared/store/sqlite-home.ts';
import { isExact } from '../../shared/store/usage-contract.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { accountOf, appendUsage } from '../../support/usage-events.ts';

let own: RedisDatabase;
let home: SqliteHome;
let store: Store;

test.before(async () => {
  own = await openRedisDatabase();
  home = await createSqliteHome();
  store = await home.open();
});

test.after.always(async () => {
  await store?.[Symbol.asyncDispose]();
  await home?.[Symbol.asyncDispose]();
  await own?.[Symbol.asyncDispose]();
});

function drainer(recordUsage: UsageStore['recordUsage'] = (records) => store.usage.recordUsage(records)) {
  const { log, lines } = recordedLog();
  const metrics = createWorkerMetrics(new Registry());
  const { recordRefusals } = store.usage;
  const drainPartition = createDrainPartition({
    redis: own.redis,
    store: { recordUsage, recordRefusals },
    metrics,
    log,
  });
  return { drainPartition, lines, metrics };
}

const markOf = (partition: number) => own.redis.hget(outboxMarksKey(partition), 'drained');

/** In the order of the outbox. */
async function append(partition: number, count: number) {
  const account = accountOf(partition);
  return Promise.all(
    Array.from({ length: count }, (_, index) => appendUsage(own.redis, { account, promptTokens: index })),
  );
}

test('an empty outbox is drained up to its start, and nothing is written', async (t) => {
  const { drainPartition } = drainer(() => Promise.reject(new Error('there is nothing to record')));
  t.deepEqual(await drainPartition(1), { upTo: '0-0', records: 0, more: false });
  t.is(await own.redis.exists(outboxMarksKey(1)), 0);
});

test('refusals among usage events are counted once, also if the entries are read again', async (t) => {
  const account = accountOf(9);
  const start = '2026-12-05T10';
  const refusal = { account, start, keyId: 'key_1', code: 'rate_limit_exceeded', requests: 4 };
  const fields = Object.entries(refusalFields([refusal, { ...refusal, code: 'quota_exceeded' }])).flat();
  await append(9, 2);
  await own.redis.xadd(outboxKey(9), '*', ...fields);
  await append(9, 1);
  const { drainPartition, lines } = drainer();
  t.like(await drainPartition(9), { records: 3 });
  await own.redis.hdel(outboxMarksKey(9), 'drained');
  t.like(await drainPartition(9), { records: 3 });
  const found = (await Array.fromAsync(store.usage.readRefusals({ account, start, end: start }))).flat();
  t.deepEqual(
    found.map(({ code, requests }) => [code, requests]),
    [
      ['quota_exceeded', 4],
      ['rate_limit_exceeded', 4],
    ],
  );
  t.deepEqual(lines, []);
});

test('writes the entries of the outbox to the store in order, batch by batch, and keeps them in the outbox', async (t) => {
  const records = await append(2, 1_100);
  const batches: string[][] = [];
  const { drainPartition, metrics } = drainer(async (batch) => {
    batches.push(batch.map(({ entry }) => entry));
    await store.usage.recordUsage(batch);
  });
  const last = (index: number) => streamIdOf(records[index]?.entry ?? '');
  t.deepEqual(await drainPartition(2), { upTo: last(499), records: 500, more: true });
  t.is(await markOf(2), last(499));
  t.deepEqual(await drainPartition(2), { upTo: last(999), records: 500, more: true });
  t.deepEqual(await drainPartition(2), { upTo: last(1_099), records: 100, more: false });
  t.deepEqual(await drainPartition(2), { upTo: last(1_099), records: 0, more: false });

  t.deepEqual(
    batches.flat(),
    records.map(({ entry }) => entry),
  );
  await isExact(t, store, records);
  t.is(await own.redis.xlen(outboxKey(2)), 1_100);
  t.is((await metrics.usageDrained.get()).values[0]?.value, 1_100);
});

test('sequence 10 comes after 9, and the mark never moves back', async (t) => {
  const ids = ['5-9', '5-10', '5-11', '10-1', '10-2', '100-0'];
  const records = [];
  for (const id of ids) records.push(await appendUsage(own.redis, { account: accountOf(3) }, id));
  const { drainPartition } = drainer();
  for (const mark of ['5-9', '10-1', '5-10']) {
    await own.redis.hset(outboxMarksKey(3), 'drained', mark);
    t.deepEqual(await drainPartition(3), { upTo: '100-0', records: ids.length - ids.indexOf(mark) - 1, more: false });
    t.is(await markOf(3), '100-0');
  }
  await own.redis.hdel(outboxMarksKey(3), 'drained');
  await drainPartition(3);
  await isExact(t, store, records);
});

test('a slow drainer that was overtaken does not move the mark back, and counts nothing twice', async (t) => {
  const first = await append(4, 3);
  const gate = Promise.withResolvers<void>();
  const slow = drainer(async (records) => {
    await gate.promise;
    await store.usage.recordUsage(records);
  });
  const slowly = slow.drainPartition(4);
  const { drainPartition } = drainer();
  await drainPartition(4);
  const second = await append(4, 3);
  const { upTo } = await drainPartition(4);
  gate.resolve();
  await slowly;
  t.is(await markOf(4), upTo);
  await isExact(t, store, [...first, ...second]);
});

test('if the store fails before, during or after a write, the mark stays, and nothing is lost or counted twice', async (t) => {
  const records = await append(5, 300);
  const failures: UsageStore['recordUsage'][] = [
    () => Promise.reject(new Error('before')),
    async (batch) => {
      await store.usage.recordUsage(batch.slice(0, 130));
      throw new Error('during');
    },
    async (batch) => {
      await store.usage.recordUsage(batch);
      throw new Error('after');
    },
  ];
  for (const recordUsage of failures) {
    await t.throwsAsync(drainer(recordUsage).drainPartition(5));
    t.is(await markOf(5), null);
  }
  await drainer().drainPartition(5);
  await isExact(t, store, records);
});

test('two drainers of one partition at the same time have the same result as one', async (t) => {
  const records = await append(6, 700);
  const [one, other] = [drainer(), drainer()];
  await Promise.all([one.drainPartition(6), other.drainPartition(6)]);
  const more = await append(6, 50);
  await Promise.all([one.drainPartition(6), other.drainPartition(6)]);
  await isExact(t, store, [...records, ...more]);
});

test('an unreadable entry is set aside unchanged and counted, and only its position is logged', async (t) => {
  const account = accountOf(7);
  const [first] = await append(7, 1);
  const secret = 'svc_a_text_that_no_log_may_show';
  const odd = [
    await own.redis.xadd(outboxKey(7), '*', 'request', 'req_1', 'report', `{"text": "${secret}`),
    await own.redis.xadd(outboxKey(7), '*', secret, secret),
    await own.redis.xadd(outboxKey(7), '*', 'request', 'req_2', 'account', account, 'month', secret, 'report', '{}'),
  ];
  const [second] = await append(7, 1);
  const { drainPartition, lines, metrics } = drainer();
  t.like(await drainPartition(7), { records: 2, more: false });
  await isExact(
    t,
    store,
    [first, second].filter((record) => record !== undefined),
  );
  t.deepEqual(
    lines.map(({ level, fields }) => [level, fields]),
    odd.map((entry) => ['error', { partition: 7, entry }]),
  );
  t.false(JSON.stringify(lines).includes(secret));
  t.is((await metrics.usageUnreadable.get()).values[0]?.value, 3);
  const aside = () => own.redis.xrange(outboxUnreadableKey(7), '-', '+');
  t.deepEqual(
    (await aside()).map(([id]) => id),
    odd,
  );
  t.true(JSON.stringify(await aside()).includes(secret), 'the entry is kept');
  await own.redis.hdel(outboxMarksKey(7), 'drained');
  await drainPartition(7);
  t.is((await aside()).length, 3, 'when it is read again, it is not set aside again');
});

test('an outbox with only unreadable entries makes progress', async (t) => {
  const id = await own.redis.xadd(outboxKey(8), '*', 'nothing', 'of use');
  const { drainPartition } = drainer(() => Promise.reject(new Error('there is nothing to record')));
  t.deepEqual(await drainPartition(8), { upTo: id ?? '', records: 0, more: false });
  t.is(await markOf(8), id);
});

function heldDrainer(drainPartition: (partition: number) => Promise<DrainReport>) {
  let time = 0;
  const now = () => time;
  const { log, lines } = recordedLog();
  const metrics = createWorkerMetrics(new Registry());
  const trimmed: [number, string][] = [];
  const asked: number[] = [];
  const drainHeld = createDrainHeld({
    drainPartition: async (partition) => {
      asked.push(partition);
      return drainPartition(partition);
    },
    trimOutbox: async (partition, id) => void trimmed.push([partition, id]),
    schedule: createTrimSchedule({ afterMs: 10_000, now }),
    backoff: createBackoff({ now, random: () => 1 }),
    metrics,
    log,
  });
  return {
    trimmed,
    metrics,
    /** The partitions drained in this round, and the log lines of it. */
    async round(held: readonly number[], signal = new AbortController().signal) {
      asked.length = 0;
      lines.length = 0;
      const { more, failed } = await drainHeld(held, signal);
      return {
        left: { more, failed: failed.toSorted((a, b) => a - b) },
        asked: asked.toSorted((a, b) => a - b),
        said: lines.map(({ level, message }) => [level, message]),
      };
    },
    pass(ms: number) {
      time += ms;
    },
  };
}

const partitions = Array.from({ length: 20 }, (_, partition) => partition);
const noneLeft = { more: [], failed: [] };
const nothing: DrainReport = { upTo: '0-0', records: 0, more: false };

test('drains each partition once, a few at a time, and returns those with more', async (t) => {
  let [atOnce, most] = [0, 0];
  const { round } = heldDrainer(async (partition) => {
    most = Math.max(most, ++atOnce);
    await new Promise((resolve) => setImmediate(resolve));
    atOnce -= 1;
    return { ...nothing, more: partition === 5 };
  });
  t.deepEqual(await round(partitions), { left: { more: [5], failed: [] }, asked: partitions, said: [] });
  t.is(most, 4);
  t.deepEqual(await round([3, 4]), { left: noneLeft, asked: [3, 4], said: [] });
  t.deepEqual(await round([]), { left: noneLeft, asked: [], said: [] });
  t.deepEqual(await round(partitions, AbortSignal.abort()), { left: noneLeft, asked: [], said: [] });
});

test('trims entries that another worker drained after ten seconds, and a failure does not delay other partitions', async (t) => {
  let broken = true;
  const { round, trimmed, pass } = heldDrainer(async (partition) => {
    if (partition === 3 && broken) throw new Error('no stream');
    return { upTo: '5-7', records: 0, more: false };
  });
  const said = [['error', 'usage of a partition cannot be drained; trying again']];
  t.deepEqual(await round([1, 3]), { left: { more: [], failed: [3] }, asked: [1, 3], said });
  pass(10_000);
  broken = false;
  t.deepEqual(await round([1, 3]), { left: noneLeft, asked: [1, 3], said: [] });
  t.deepEqual(trimmed, [[1, '5-7']]);
  broken = true;
  t.deepEqual((await round([1, 3])).said, said, 'the partition worked in between');
});

test('trims an entry ten seconds after it was seen to be drained, and not before', async (t) => {
  const { round, trimmed, pass } = heldDrainer(async () => ({ upTo: '5-7', records: 1, more: false }));
  await round([1]);
  pass(9_999);
  await round([1, 2]);
  t.deepEqual(trimmed, []);
  pass(1);
  await round([1, 2]);
  t.deepEqual(trimmed, [[1, '5-7']]);
  pass(9_999);
  await round([1, 2]);
  t.deepEqual(trimmed.slice(1), [[2, '5-7']]);
});

test('all partitions back off while the store is unavailable, and each change is logged once', async (t) => {
  let away = true;
  const { round, pass, metrics } = heldDrainer(async (partition) => {
    if (partition === 3) return nothing;
    if (away) throw storeUnavailable(new Error('gone'));
    return { upTo: '5-7', records: 1, more: false };
  });
  const first = await round(partitions);
  t.deepEqual(first.said, [['warn', 'the store is unavailable; usage waits in the outbox']]);
  t.true(first.asked.length <= 4, 'those that were in progress');
  t.deepEqual(await round(partitions), { left: { more: [], failed: partitions }, asked: [], said: [] });
  for (let time = 0; time < 20_000; time += 1_000) {
    pass(1_000);
    t.deepEqual((await round(partitions)).said, []);
  }
  away = false;
  pass(5_000);
  t.deepEqual(
    await round([3]),
    { left: noneLeft, asked: [3], said: [] },
    'nothing was written: the store may still be unavailable',
  );
  t.deepEqual(await round(partitions), {
    left: noneLeft,
    asked: partitions,
    said: [['info', 'the store is available again; usage is drained']],
  });
  t.true(((await metrics.usageDrainFailures.get()).values[0]?.value ?? 0) > 4);
});

test('a failing partition does not delay others', async (t) => {
  let broken = true;
  const { round, pass } = heldDrainer(async (partition) => {
    if (partition === 7 && broken) throw new Error('a document of another shape');
    return nothing;
  });
  const said = [['error', 'usage of a partition cannot be drained; trying again']];
  t.deepEqual(await round(partitions), { left: { more: [], failed: [7] }, asked: partitions, said });
  const others = partitions.filter((partition) => partition !== 7);
  t.deepEqual(await round(partitions), { left: { more: [], failed: [7] }, asked: others, said: [] });
  pass(5_000);
  t.deepEqual(await round(partitions), { left: { more: [], failed: [7] }, asked: partitions, said: [] });
  broken = false;
  pass(5_000);
  t.deepEqual(await round(partitions), { left: noneLeft, asked: partitions, said: [] });
  broken = true;
  t.deepEqual((await round(partitions)).said, said, 'the partition worked in between');
});
