import test from 'ava';
import { Redis } from 'ioredis';
import { type Allowance, createAdmit } from '../../../shared/limits/admit.ts';
import {
  countersKey,
  leaseEndsKey,
  leaseHoldersKey,
  leasesKey,
  partitionOf,
  versionKey,
} from '../../../shared/redis/keys.ts';
import { openLimits, timeouts } from '../../support/limits-side.ts';
import { noon, openOwnLimits } from '../../support/own-limits.ts';

const dayMs = 86_400_000;

const { database, redis, setTime, freshAccount } = openOwnLimits(test);

type Side = Awaited<ReturnType<typeof freshAccount>>;

async function admitMany(side: Side, count: number, allowance: Partial<Allowance>, name = 'many'): Promise<void> {
  for (let index = 0; index < count; index++) await side.admit({ requestId: `${name}${index}`, allowance });
}

test.serial('an admitted request gets a lease, and its times come from the clock of Redis', async (t) => {
  const side = await freshAccount();
  for (const at of [noon, noon + 1, noon + 999]) {
    await setTime(at);
    const answer = await side.admit({ requestId: `at ${at}` });
    t.like(answer, {
      outcome: 'admitted',
      admission: { admittedAt: at, startBy: at + 30_000, deadline: at + 600_000, overage: false },
    });
  }
  t.is(await redis().hlen(`svc:{p${String(partitionOf(side.account)).padStart(2, '0')}}:leases:${side.account}`), 3);
});

test.serial('the time is that of Redis if the clock is not replaced', async (t) => {
  const plain = new Redis(database().url);
  t.teardown(() => plain.disconnect());
  const [seconds] = (await plain.time()).map(Number);
  await plain.set(versionKey('user:plain'), 1);
  const admit = createAdmit(plain, { timeouts: () => timeouts, outboxLengthMax: 1 });
  const answer = await admit.look({ account: 'user:plain', requestId: 'a', version: 1 });
  if (answer.outcome !== 'current') return t.fail();
  const passed = answer.now - (seconds ?? 0) * 1_000;
  t.true(passed >= 0 && passed < 60_000);
});

for (const limit of [1, 2, 7]) {
  test.serial(`of requests per minute ${limit} are admitted, and the next is refused with its wait`, async (t) => {
    const side = await freshAccount();
    const allowance = { requestsPerMinute: limit };
    for (let index = 0; index < limit; index++) {
      await setTime(noon + index * 10);
      t.like(await side.admit({ requestId: `a${index}`, allowance }), { outcome: 'admitted' }, String(index));
    }
    // All of them were charged to one bucket, which expires 60 s after its last charge.
    const leavesAt = noon + (limit - 1) * 10 + 60_000;
    await setTime(noon + 30_000);
    const refused = await side.admit({ requestId: 'b', allowance });
    t.like(refused, { outcome: 'refused', limit: 'requests', waitMs: leavesAt - noon - 30_000 });
    await setTime(leavesAt - 1);
    t.like(await side.admit({ requestId: 'b', allowance }), { outcome: 'refused', waitMs: 1 });
    await setTime(leavesAt);
    t.like(await side.admit({ requestId: 'b', allowance }), { outcome: 'admitted' });
  });
}

test.serial('tokens per minute are reserved up to the last token of the limit', async (t) => {
  const side = await freshAccount();
  const allowance = { tokensPerMinute: 1_000 };
  t.like(await side.admit({ requestId: 'a', tokens: 999, allowance }), { outcome: 'admitted' });
  t.like(await side.admit({ requestId: 'b', tokens: 2, allowance }), { outcome: 'refused', limit: 'tokens' });
  t.like(await side.admit({ requestId: 'c', tokens: 1, allowance }), { outcome: 'admitted' });
  t.like(await side.admit({ requestId: 'd', tokens: 1, allowance }), { outcome: 'refused', waitMs: 60_000 });
});

test.serial('the wait covers only as many buckets as the request needs', async (t) => {
  const side = await freshAccount();
  const allowance = { tokensPerMinute: 1_000 };
  for (const [index, tokens] of [300, 300, 400].entries()) {
    await setTime(noon + index * 5_000);
    await side.admit({ requestId: `a${index}`, tokens, allowance });
  }
  for (const [tokens, waitMs] of [
    [1, 50_000],
    [300, 50_000],
    [301, 55_000],
    [600, 55_000],
    [601, 60_000],
    [1_000, 60_000],
  ] as const) {
    t.like(await side.admit({ requestId: 'b', tokens, allowance }), { limit: 'tokens', waitMs }, String(tokens));
  }
});

test.serial('settling refunds the bucket that was charged, and no other', async (t) => {
  const side = await freshAccount();
  const allowance = { tokensPerMinute: 1_000 };
  await side.admit({ requestId: 'a', tokens: 600, allowance });
  await side.start('a');
  await setTime(noon + 5_000);
  await side.admit({ requestId: 'b', tokens: 400, allowance });
  await side.settle('a', { tokens: 100 });
  t.like((await side.counters()).lastMinute, { tokens: 500, requests: 2 });
  t.like(await side.admit({ requestId: 'c', tokens: 501, allowance }), { limit: 'tokens', waitMs: 55_000 });
  t.like(await side.admit({ requestId: 'd', tokens: 500, allowance }), { outcome: 'admitted' });
  await setTime(noon + 60_000);
  t.is((await side.counters()).lastMinute.tokens, 900);
});

test.serial(
  'usage above the reservation counts, and a charge that left the window does not return to it',
  async (t) => {
    const side = await freshAccount();
    await side.admit({ requestId: 'a', tokens: 100 });
    await side.admit({ requestId: 'b', tokens: 100 });
    await side.start('a');
    await side.start('b');
    await side.settle('a', { tokens: 150 });
    t.is((await side.counters()).lastMinute.tokens, 250);
    await setTime(noon + 60_000);
    await side.settle('b', { tokens: 10 });
    t.like(await side.counters(), { lastMinute: { tokens: 0, requests: 0, resetMs: 0 }, used: 160, reserved: 0 });
  },
);

test.serial('the day changes at 00:00 UTC, and the wait lasts until then', async (t) => {
  const side = await freshAccount();
  const allowance = { requestsPerDay: 2 };
  const midnight = Date.UTC(2030, 4, 16);
  await admitMany(side, 2, allowance);
  t.like(await side.admit({ requestId: 'b', allowance }), { limit: 'day', waitMs: midnight - noon });
  await setTime(midnight - 1);
  t.like(await side.admit({ requestId: 'b', allowance }), { limit: 'day', waitMs: 1 });
  await setTime(midnight);
  t.like(await side.admit({ requestId: 'b', allowance }), { outcome: 'admitted', counters: { dayRequests: 1 } });
});

test.serial('at most the limit of requests is in flight at once, and one that ends makes room for one', async (t) => {
  const side = await freshAccount();
  const allowance = { requestsAtOnce: 2 };
  await admitMany(side, 2, allowance, 'a');
  t.like(await side.admit({ requestId: 'b', allowance }), { limit: 'concurrency', waitMs: 1_000 });
  await side.start('a0');
  await side.settle('a0');
  t.like(await side.admit({ requestId: 'b', allowance }), { outcome: 'admitted' });
  t.like(await side.admit({ requestId: 'c', allowance }), { limit: 'concurrency' });
  await side.release('b');
  t.like(await side.admit({ requestId: 'c', allowance }), { outcome: 'admitted' });
});

test.serial(
  'a month is spent once used and reserved tokens reach its allowance, and not one token before',
  async (t) => {
    const side = await freshAccount();
    const allowance = { tokensPerMonth: 1_000 };
    t.like(await side.admit({ requestId: 'a', tokens: 999, allowance }), { outcome: 'admitted' });
    const last = await side.admit({ requestId: 'b', tokens: 5_000, allowance });
    t.like(last, { outcome: 'admitted', admission: { overage: false }, counters: { reserved: 5_999 } });
    t.like(await side.admit({ requestId: 'c', tokens: 1, allowance }), {
      outcome: 'refused',
      limit: 'quota',
      waitMs: 0,
    });
    await side.start('b');
    await side.settle('b', { tokens: 0 });
    t.like(await side.admit({ requestId: 'c', tokens: 1, allowance }), { outcome: 'admitted' });
    t.like(await side.admit({ requestId: 'd', tokens: 1, allowance }), { limit: 'quota' });
  },
);

test.serial('a top-up counts only in its own month', async (t) => {
  const side = await freshAccount();
  const allowance = { tokensPerMonth: 100, topUp: { month: '2030-05', tokens: 50 } };
  await side.admit({ requestId: 'a', tokens: 149, allowance });
  t.like(await side.admit({ requestId: 'b', tokens: 1, allowance }), { outcome: 'admitted' });
  t.like(await side.admit({ requestId: 'c', tokens: 1, allowance }), { limit: 'quota' });
  const past = { tokensPerMonth: 100, topUp: { month: '2030-04', tokens: 5_000 } };
  t.like(await side.admit({ requestId: 'c', tokens: 1, allowance: past }), { limit: 'quota' });
});

test.serial('with overage a spent month still admits requests, and usage above it is counted as overage', async (t) => {
  const side = await freshAccount();
  const allowance = { tokensPerMonth: 100, overageEnabled: true };
  t.like(await side.admit({ requestId: 'a', tokens: 100, allowance }), { admission: { overage: false } });
  t.like(await side.admit({ requestId: 'b', tokens: 100, allowance }), { admission: { overage: true } });
  for (const requestId of ['a', 'b']) {
    await side.start(requestId);
    await side.settle(requestId, { tokens: 70 });
  }
  t.like(await side.counters(), { used: 140, overageUsed: 70, reserved: 0 });
  t.deepEqual(
    (await side.outbox()).filter(({ account }) => account === side.account).map(({ overage }) => overage),
    [false, true],
  );
});

test.serial('overage has a bound: it is compared with what is used and reserved beyond the allowance', async (t) => {
  const side = await freshAccount();
  const allowance = { tokensPerMonth: 100, overageEnabled: true, overageTokensPerMonth: 50 };
  t.like(await side.admit({ requestId: 'a', tokens: 100, allowance }), { admission: { overage: false } });
  t.like(await side.admit({ requestId: 'b', tokens: 49, allowance }), { admission: { overage: true } });
  t.like(await side.admit({ requestId: 'c', tokens: 1, allowance }), { admission: { overage: true } });
  const refused = { outcome: 'refused', limit: 'quota', waitMs: 0 };
  t.like(await side.admit({ requestId: 'd', tokens: 1, allowance }), refused);
  t.like(await side.admit({ requestId: 'c', tokens: 1, allowance }), { outcome: 'admitted' }, 'a repeat');
  const unbounded = { tokensPerMonth: 100, overageEnabled: true };
  t.like(await side.admit({ requestId: 'e', tokens: 1, allowance: unbounded }), { outcome: 'admitted' });
  const off = { ...allowance, overageEnabled: false };
  t.like(await side.admit({ requestId: 'd', tokens: 1, allowance: off }), refused);
});

test.serial('a top-up lifts spent overage, and does not renew it', async (t) => {
  const side = await freshAccount();
  const allowance = { tokensPerMonth: 100, overageEnabled: true, overageTokensPerMonth: 50 };
  for (const [requestId, tokens] of [
    ['a', 100],
    ['b', 50],
  ] as const) {
    await side.admit({ requestId, tokens, allowance });
    await side.start(requestId);
    await side.settle(requestId, { tokens });
  }
  t.like(await side.admit({ requestId: 'c', tokens: 1, allowance }), { limit: 'quota', counters: { overageUsed: 50 } });
  const topped = { ...allowance, topUp: { month: '2030-05', tokens: 60 } };
  t.like(await side.admit({ requestId: 'c', tokens: 10, allowance: topped }), { admission: { overage: false } });
  t.like(await side.admit({ requestId: 'd', tokens: 1, allowance: topped }), { outcome: 'refused', limit: 'quota' });
});

test.serial('of several limits the longest wait is reported, and a spent month before all others', async (t) => {
  const side = await freshAccount();
  const perMinute = { requestsPerMinute: 1, tokensPerMinute: 150 };
  await side.admit({ requestId: 'a', tokens: 100 });
  await setTime(noon + 5_000);
  await side.admit({ requestId: 'b', tokens: 50 });
  const ask = (allowance: Partial<Allowance>) => side.admit({ requestId: 'c', tokens: 100, allowance });
  t.like(await ask({ tokensPerMinute: 150 }), { limit: 'tokens', waitMs: 55_000 });
  t.like(await ask(perMinute), { limit: 'requests', waitMs: 60_000 });
  t.like(await ask({ ...perMinute, requestsAtOnce: 1 }), { limit: 'requests' });
  t.like(await ask({ ...perMinute, requestsPerDay: 2 }), { limit: 'day' });
  t.like(await ask({ ...perMinute, requestsPerDay: 2, tokensPerMonth: 150 }), { limit: 'quota' });
});

test.serial('a refused request is not charged, for any limit', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a' });
  const before = await side.counters();
  for (const allowance of [
    { requestsPerMinute: 1 },
    { tokensPerMinute: 100 },
    { requestsPerDay: 1 },
    { requestsAtOnce: 1 },
    { tokensPerMonth: 100 },
  ]) {
    t.like(await side.admit({ requestId: 'b', allowance }), { outcome: 'refused', counters: before });
  }
  t.deepEqual(await side.counters(), before);
});

test.serial('a repeated admission of a request is charged once and keeps its times', async (t) => {
  const side = await freshAccount();
  const allowance = { requestsPerMinute: 1, tokensPerMinute: 100, requestsPerDay: 1, requestsAtOnce: 1 };
  const first = await side.admit({ requestId: 'a', allowance });
  await setTime(noon + 4_000);
  const again = await side.admit({ requestId: 'a', allowance });
  if (first.outcome !== 'admitted' || again.outcome !== 'admitted') return t.fail();
  t.deepEqual(again.admission, first.admission);
  t.like(await side.counters(), { lastMinute: { requests: 1, tokens: 100 }, reserved: 100, dayRequests: 1 });
});

test.serial('a request that has ended is not admitted again, in whichever way it ended', async (t) => {
  const side = await freshAccount();
  for (const requestId of ['settled', 'lost']) await side.admit({ requestId });
  await side.start('settled');
  await side.settle('settled');
  await side.release('released');
  await setTime(noon + 60_001);
  t.is(await side.endLeases(), 1);
  for (const requestId of ['settled', 'released', 'lost']) {
    t.deepEqual(await side.admit({ requestId }), { outcome: 'ended' }, requestId);
  }
  t.like(await side.counters(), { used: 10, reserved: 0 });
});

test.serial('a month that is not counted yet must be seeded first, and nothing is charged', async (t) => {
  await setTime(noon);
  const side = openLimits(redis(), { account: 'user:cold' });
  await redis().set(versionKey('user:cold'), 1);
  t.deepEqual(await side.admit({ requestId: 'a' }), { outcome: 'cold', month: '2030-05' });
  t.is(await redis().zscore(leaseHoldersKey(partitionOf('user:cold')), 'user:cold'), null);
  await side.seed('2030-05');
  t.like(await side.admit({ requestId: 'a' }), { outcome: 'admitted', counters: { used: 0, reserved: 100 } });
});

test.serial('a month begins at 0 if the last one was counted, and each request counts in its own month', async (t) => {
  const side = await freshAccount();
  const allowance = { tokensPerMonth: 100 };
  const june = Date.UTC(2030, 5, 1);
  await setTime(june - 1);
  t.like(await side.admit({ requestId: 'may', allowance }), { outcome: 'admitted', counters: { month: '2030-05' } });
  t.like(await side.admit({ requestId: 'more', allowance }), { limit: 'quota' });
  await setTime(june);
  const first = await side.admit({ requestId: 'june', tokens: 30, allowance });
  t.like(first, { outcome: 'admitted', counters: { month: '2030-06', used: 0, reserved: 30 } });
  for (const requestId of ['may', 'june']) {
    await side.start(requestId);
    await side.settle(requestId, { tokens: 20 });
  }
  t.like(await side.counters(), { month: '2030-06', used: 20, reserved: 0 });
  t.like(await side.seed('2030-05', 'compare'), { before: { used: 20, reserved: 0 } });
});

test.serial('a skipped month makes an account cold, and past months are removed', async (t) => {
  const side = await freshAccount();
  await setTime(Date.UTC(2030, 6, 1));
  t.deepEqual(await side.admit({ requestId: 'a' }), { outcome: 'cold', month: '2030-07' });
  await side.seed('2030-07');
  await setTime(Date.UTC(2030, 7, 1));
  await side.admit({ requestId: 'b' });
  t.is((await side.seed('2030-05', 'compare')).before, undefined);
  t.is((await side.seed('2030-07', 'compare')).before?.used, 0, 'the last month is kept');
  await setTime(Date.UTC(2030, 8, 1));
  await side.admit({ requestId: 'c' });
  t.is((await side.seed('2030-07', 'compare')).before, undefined);
});

test.serial('months are those of the calendar, including leap years and ends of centuries', async (t) => {
  const side = openLimits(redis(), { account: 'user:calendar' });
  await redis().set(versionKey('user:calendar'), 1);
  for (const year of [2024, 2025, 2026, 2099, 2100, 2400]) {
    for (let month = 0; month < 12; month++) {
      for (const at of [Date.UTC(year, month), Date.UTC(year, month + 1) - 1]) {
        await setTime(at);
        const answer = await side.admit({ requestId: 'a' });
        t.is(answer.outcome === 'cold' && answer.month, new Date(at).toISOString().slice(0, 7));
      }
    }
  }
});

test.serial('an expired lease counts until it is ended, and an admission never ends one', async (t) => {
  const side = await freshAccount();
  const allowance = { requestsAtOnce: 2 };
  await admitMany(side, 2, allowance);
  await setTime(noon + 60_000);
  t.like(await side.admit({ requestId: 'b', allowance }), { limit: 'concurrency' });
  t.is(await side.endLeases(), 2);
  t.like(await side.admit({ requestId: 'b', allowance }), { outcome: 'admitted', counters: { reserved: 100 } });
});

test.serial('nothing is admitted while the outbox is full', async (t) => {
  const side = await freshAccount({ outboxLengthMax: 2, account: 'user:full' });
  await redis().del(`svc:{p${String(partitionOf('user:full')).padStart(2, '0')}}:outbox`);
  for (const requestId of ['a', 'b']) {
    await side.admit({ requestId });
    await side.start(requestId);
    await side.settle(requestId);
  }
  t.like(await side.admit({ requestId: 'c' }), { outcome: 'full', counters: { used: 20, reserved: 0 } });
  t.like(await side.counters(), { used: 20 });
});

test.serial('a clock that steps back by less than a minute is waited out, and a larger step is accepted', async (t) => {
  const side = await freshAccount();
  const allowance = { requestsPerMinute: 1 };
  await side.admit({ requestId: 'a', allowance });
  await setTime(noon - 59_999);
  t.like(await side.admit({ requestId: 'b', allowance }), { limit: 'requests', waitMs: 60_000 + 59_999 });
  await setTime(noon - 60_000);
  t.like(await side.admit({ requestId: 'b', allowance }), { outcome: 'admitted' });
});

test.serial('a lease is kept as long as its reservation, so that it can be ended at any later time', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a' });
  for (const key of [
    ...[countersKey(side.account), leasesKey(side.account), leaseEndsKey(side.account)],
    leaseHoldersKey(partitionOf(side.account)),
  ]) {
    t.true((await redis().pttl(key)) > 61 * dayMs, key);
  }
});

test.serial('every key of an account expires automatically', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a' });
  await side.admit({ requestId: 'b' });
  await side.start('a');
  await side.settle('a');
  await side.release('c');
  const keys = (await redis().keys(`*${side.account}`)).filter((key) => !key.includes(':version:'));
  t.is(keys.length, 3);
  for (const key of [...keys, leaseHoldersKey(partitionOf(side.account))]) {
    const lifeMs = await redis().pttl(key);
    t.true(lifeMs > 600_000 && lifeMs <= 62 * dayMs, `${key}: ${lifeMs}`);
  }
});

test.serial('using the counters of an account renews their full lifetime', async (t) => {
  const side = await freshAccount();
  await redis().pexpire(countersKey(side.account), dayMs);
  await side.admit({ requestId: 'a' });
  t.true((await redis().pttl(countersKey(side.account))) > 61 * dayMs);
});

test.serial('keys that were deleted and are created again within one bucket expire as well', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a' });
  await side.start('a');
  await side.settle('a');
  const holders = leaseHoldersKey(partitionOf(side.account));
  await redis().del(holders);
  const keys = [leasesKey(side.account), leaseEndsKey(side.account), holders];
  t.is(await redis().exists(...keys), 0);
  await side.admit({ requestId: 'b' });
  for (const key of keys) t.true((await redis().pttl(key)) > 61 * dayMs, key);
});

test.serial('sums are exact up to the largest safe integer', async (t) => {
  const side = await freshAccount();
  const [used, reserved, settled] = [9_000_000_000_000_001, 3_456_789_012_345, 3_456_789_012_344];
  await redis().hset(countersKey(side.account), '2030-05:used', used);
  const held = { lastMinute: { requests: 1, tokens: reserved, resetMs: 60_000 }, used, reserved };
  t.like(await side.admit({ requestId: 'a', tokens: reserved }), { outcome: 'admitted', counters: held });
  await side.start('a');
  t.true(await side.settle('a', { tokens: settled }));
  const { lastMinute, ...counters } = await side.counters();
  t.like(counters, { used: used + settled, reserved: 0 });
  t.is(lastMinute.tokens, settled);
});

test.serial('a minute without stored sums is counted again, and so is one that was emptied', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a', tokens: 30 });
  for (const window of [`[[${noon - 5_000},2,300,${noon - 1_000}],[${noon - 500},1,50,${noon}]]`, '[]', '{}']) {
    await redis().hset(countersKey(side.account), { window, minuteRequests: 7, minuteTokens: 7 });
    const counted = window.length > 2 ? { requests: 3, tokens: 350 } : { requests: 0, tokens: 0 };
    t.like((await side.counters()).lastMinute, counted, window);
    const { requests, tokens } = counted;
    const answer = await side.admit({ requestId: `b ${window}`, tokens: 5 });
    t.like(answer, { counters: { lastMinute: { requests: requests + 1, tokens: tokens + 5 } } }, window);
    t.like((await side.counters()).lastMinute, { requests: requests + 1, tokens: tokens + 5 }, window);
  }
});
