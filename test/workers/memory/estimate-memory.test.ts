import test from 'ava';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import {
  accountBytes,
  type Demand,
  estimateMemory,
  networkBytes,
  sumOf,
  warnOfLargePlans,
} from '../../../workers/memory/estimate-memory.ts';
import { type ItemBytes, itemBytes } from '../../../workers/memory/item-bytes.ts';
import { parseMemoryArguments } from '../../../workers/memory/run-memory.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const nothing = parseMemoryArguments([]) as Demand; // no argument is wrong

/** Simple sizes: every item takes another power of ten. */
const bytes: ItemBytes = {
  redis: {
    ...{ account: { bytes: 1 }, device: { bytes: 2 }, limitedKey: { bytes: 4 }, activeAccount: { bytes: 11 } },
    ...{ waiting: { bytes: 100, perKibibyte: 10 }, running: { bytes: 1_000, perKibibyte: 100 } },
    ...{ lease: { bytes: 7 }, furtherLease: { bytes: 3 }, endedMark: { bytes: 5 }, usageEvent: { bytes: 600 } },
    ...{
      lineWaiting: { bytes: 200, perKibibyte: 50 },
      reply: { bytes: 1, perKibibyte: 1 },
      keptAnswer: { bytes: 8, perKibibyte: 20 },
      atRest: { bytes: 9_000 },
    },
  },
  sqlite: storeOf(1),
  mongodb: storeOf(10),
};

function storeOf(times: number): ItemBytes['sqlite'] {
  const item = (size: number) => ({ bytes: size * times });
  return {
    ...{ account: item(1), device: item(2), usageRecord: item(30), usageDetail: item(4), usageTotal: item(5) },
    ...{ batchResult: item(6), auditRecord: item(7), usageHour: item(8) },
  };
}

const bytesOf = (parts: readonly { what: string; bytes: number }[]) =>
  Object.fromEntries(parts.filter((part) => part.bytes > 0).map((part) => [part.what, part.bytes]));

test('without accounts and requests, Redis holds only itself, and the store nothing', (t) => {
  const { redis, redisBytes, sqlite, outboxLength } = estimateMemory(nothing, bytes);
  t.deepEqual(bytesOf(redis), { 'Redis itself': 9_000 });
  t.is(redisBytes, 9_000);
  t.is(sumOf(sqlite), 0);
  t.is(outboxLength, 0);
});

test('every number of the demand adds what its items take', (t) => {
  const demand: Demand = {
    ...{
      accounts: 100,
      devices: 50,
      limitedKeys: 7,
      requestsPerSecond: 10,
      bodyKib: 2,
      waitingSeconds: 3,
      runningSeconds: 4,
    },
    ...{ storeAwayHours: 1, deadlineSeconds: 400, detailsPerDay: 6, batchAccounts: 2 },
    ...{ idempotentRequestsPerSecond: 3, answerKib: 2 },
  };
  const { redis, redisBytes, maxmemoryBytes, outboxLength, sqlite, mongodb } = estimateMemory(demand, bytes);
  t.deepEqual(bytesOf(redis), {
    accounts: 100,
    devices: 100,
    'further keys with limits': 28,
    'accounts in use within an hour': 150 * 10,
    'waiting requests': 30 * 120,
    'running requests': 40 * 1_200,
    'their leases': 70 * 7,
    'marks of ended requests': 10 * (400 + 3_600) * 5,
    'usage events, store available': 10 * 10 * 600,
    'usage events, store away': 10 * 3_600 * 600,
    'lines of batches': 2 * 256 * (300 + 3),
    'answers that are kept': 3 * 600 * 48,
    'Redis itself': 9_000,
  });
  t.is(redisBytes, sumOf(redis));
  t.is(maxmemoryBytes, 1.5 * redisBytes);
  t.is(outboxLength, Math.ceil((2 * 36_100) / 64));
  const requests = 10 * 30 * 86_400;
  t.deepEqual(bytesOf(sqlite), {
    'accounts and devices, once': 200,
    'usage records of a month': requests * 30,
    'usage details of a month': 150 * 30 * 6 * 4,
    'their hours, at most': 150 * 30 * 6 * 24 * 8,
    'totals of a month': 150 * 5,
  });
  t.is(sumOf(mongodb), 10 * sumOf(sqlite));
});

test('no more accounts are in use than send requests, and no more details exist than requests', (t) => {
  const rare = { ...nothing, accounts: 1_000_000, requestsPerSecond: 0.01, detailsPerDay: 4 };
  const { redis, sqlite } = estimateMemory(rare, bytes);
  t.is(bytesOf(redis)['accounts in use within an hour'], 36 * 10);
  t.is(bytesOf(sqlite)['usage details of a month'], 25_920 * 4);
  t.is(bytesOf(sqlite)['their hours, at most'], 25_920 * 8);
});

test('a request takes more in Redis the longer it waits, runs and is remembered', (t) => {
  const demand = { ...nothing, accounts: 10, requestsPerSecond: 10 };
  const sum = (change: Partial<Demand>) => estimateMemory({ ...demand, ...change }, itemBytes).redisBytes;
  for (const name of ['bodyKib', 'waitingSeconds', 'runningSeconds', 'deadlineSeconds', 'storeAwayHours'] as const) {
    t.true(sum({ [name]: demand[name] + 1 }) > sum({}), name);
  }
});

test('kept answers have a quarter of the memory, so it is four times as much if they are most of it', (t) => {
  const { redisBytes, maxmemoryBytes } = estimateMemory({ ...nothing, idempotentRequestsPerSecond: 10 }, bytes);
  const kept = 10 * 600 * (8 + 4 * 20);
  t.is(redisBytes, kept + 9_000);
  t.is(maxmemoryBytes, 4 * kept);
});

test('an account leaves the marks of the requests that its plan allows in 70 minutes, kept answers and keys', (t) => {
  const timeouts = { requestMs: 600_000 };
  const others = 11 + 16_384 * 20 + 3_000 * 4;
  t.is(accountBytes({ requestsPerMinute: 1_000 }, timeouts, bytes.redis), others + 70_000 * 5);
  t.is(accountBytes({ requestsPerMinute: 1_000, requestsPerDay: 50 }, timeouts, bytes.redis), others + 100 * 5);
  t.is(accountBytes({ requestsPerDay: 50 }, timeouts, bytes.redis), others + 100 * 5);
  t.is(accountBytes({}, timeouts, bytes.redis), undefined);
});

test('the devices that one network creates in a day leave their marks, and keep no answers of their own', (t) => {
  const [timeouts, guestMintsPerHour] = [{ requestMs: 600_000 }, 10];
  const limits = { requestsPerMinute: 5, requestsPerDay: 50, guestMintsPerHour };
  t.is(networkBytes(limits, timeouts, bytes.redis), 240 * (11 + 100 * 5));
  t.is(networkBytes({ guestMintsPerHour }, timeouts, bytes.redis), undefined);
});

const plansAt = (guestMintsPerHour: number, memoryBytes: number) => {
  const { log, lines } = recordedLog();
  const plans = {
    ...{ small: { requestsPerMinute: 20 }, large: { requestsPerMinute: 100_000 }, unlimited: {}, open: {} },
    'guest-device': { requestsPerMinute: 5, requestsPerDay: 50 },
  };
  const planFile = { plans, guestMintsPerHour, timeouts: { requestMs: 600_000 } } as unknown as PlanFile; // the only fields that are read
  warnOfLargePlans({ ...planFile, memoryBytes, log });
  return lines;
};
const warned = (guestMintsPerHour: number, memoryBytes: number) =>
  plansAt(guestMintsPerHour, memoryBytes).filter(({ level }) => level === 'warn');

test('a worker warns of each plan on which one account can fill Redis', (t) => {
  const lines = warned(20, 512 * 1_048_576);
  t.like(lines, { 0: { fields: { plan: 'large', redisMebibytes: 512 } }, length: 1 });
  t.deepEqual(warned(20, 16 * 1_073_741_824), []);
  t.deepEqual(warned(20, 0), [], 'it is not known');
});

test('a worker warns if the devices of one network can fill Redis', (t) => {
  const lines = warned(5_000, 2 * 1_073_741_824);
  t.like(lines, { 0: { fields: { plan: 'guest-device', redisMebibytes: 2_048 } }, length: 1 });
  t.regex(String(lines[0]?.message), /guest_mints_per_hour/);
});

test('a worker names the plans without a limit of requests once, also if the memory of Redis is not known', (t) => {
  for (const memoryBytes of [0, 16 * 1_073_741_824]) {
    const lines = plansAt(20, memoryBytes);
    t.like(lines, { 0: { level: 'info', fields: { plans: ['unlimited', 'open'] } }, length: 1 });
    t.regex(String(lines[0]?.message), /requests_per_minute and requests_per_day/);
  }
});
