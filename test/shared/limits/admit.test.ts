import test from 'ava';
import { Redis } from 'ioredis';
import { type Allowance, createAdmit, leaseGraceMs, leaseLifeMs } from '../../../shared/limits/admit.ts';
import {
  countersKey,
  leaseEndsKey,
  leaseHoldersKey,
  leasesKey,
  partitionOf,
  versionKey,
} from '../../../shared/redis/keys.ts';
import { lostReport, openLimits, timeouts } from '../../support/limits-side.ts';
import { noon, openOwnLimits } from '../../support/own-limits.ts';

const dayMs = 86_400_000;

const { database, redis, setTime, freshAccount } = openOwnLimits(test);

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
  t.like(await side.admit({ requestId: 'c', tokens: 1, allowance }), {
    limit: 'quota',
    counters: { overageTokens: 50 },
  });
  const topped = { ...allowance, topUp: { month: '2030-05', tokens: 60 } };
  t.like(await side.admit({ requestId: 'c', tokens: 10, allowance: topped }), { admission: { overage: false } });
  t.like(await side.admit({ requestId: 'd', tokens: 1, allowance: topped }), { outcome: 'refused', limit: 'quota' });
});

test.serial('a skipped month makes an account cold, and past months are removed', async (t) => {
  const side = await freshAccount();
  await setTime(Date.UTC(2030, 6, 1));
  t.deepEqual(await side.admit({ requestId: 'a' }), { outcome: 'cold', month: '2030-07' });
  await side.seed('2030-07');
  await setTime(Date.UTC(2030, 7, 1));
  await side.admit({ requestId: 'b' });
  t.is((await side.seed('2030-05', 'compare')).before, undefined);
  t.is((await side.seed('2030-07', 'compare')).before?.chargedTokens, 0, 'the last month is kept');
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

test.serial('nothing is admitted while the outbox is full', async (t) => {
  const side = await freshAccount({ outboxLengthMax: 2, account: 'user:full' });
  await redis().del(`svc:{p${String(partitionOf('user:full')).padStart(2, '0')}}:outbox`);
  for (const requestId of ['a', 'b']) {
    await side.admit({ requestId });
    await side.start(requestId);
    await side.settle(requestId);
  }
  t.like(await side.admit({ requestId: 'c' }), { outcome: 'full', counters: { chargedTokens: 20, reservedTokens: 0 } });
  t.like(await side.counters(), { chargedTokens: 20 });
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

test.serial('a lease that ends before the next check of its account brings that check forward', async (t) => {
  const side = await freshAccount();
  const checkedAt = async () => Number(await redis().zscore(leaseHoldersKey(partitionOf(side.account)), side.account));
  const admit = (requestId: string, queueMs: number) =>
    side.admission.admit(
      { account: side.account, requestId, version: 1 },
      { allowance: { overageEnabled: false }, reservedTokens: 1, report: lostReport, queueMs },
    );
  t.like(await admit('a', 60_000), { outcome: 'admitted' });
  t.is(await checkedAt(), noon + leaseLifeMs);
  t.like(await admit('b', 90_000), { outcome: 'admitted' });
  t.is(await checkedAt(), noon + leaseLifeMs);
  t.like(await admit('c', 1_000), { outcome: 'admitted' });
  t.is(await checkedAt(), noon + 1_000 + leaseGraceMs.admitted);
});

test.serial('sums are exact up to the largest safe integer', async (t) => {
  const side = await freshAccount();
  const [used, reserved, settled] = [9_000_000_000_000_001, 3_456_789_012_345, 3_456_789_012_344];
  await redis().hset(countersKey(side.account), '2030-05:chargedTokens', used);
  const held = {
    lastMinute: { requests: 1, tokens: reserved, resetMs: 60_000 },
    chargedTokens: used,
    reservedTokens: reserved,
  };
  t.like(await side.admit({ requestId: 'a', tokens: reserved }), { outcome: 'admitted', counters: held });
  await side.start('a');
  t.true(await side.settle('a', { tokens: settled }));
  const { lastMinute, ...counters } = await side.counters();
  t.like(counters, { chargedTokens: used + settled, reservedTokens: 0 });
  t.is(lastMinute.tokens, settled);
});

test.serial('a minute without stored sums is counted again, and so is one that was emptied', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a', tokens: 30 });
  for (const window of [`[[${noon - 5_000},2,300,${noon - 1_000}],[${noon - 500},1,50,${noon}]]`, '[]', '{}']) {
    await redis().hset(countersKey(side.account), { window });
    const counted = window.length > 2 ? { requests: 3, tokens: 350 } : { requests: 0, tokens: 0 };
    t.like((await side.counters()).lastMinute, counted, window);
    const { requests, tokens } = counted;
    const answer = await side.admit({ requestId: `b ${window}`, tokens: 5 });
    t.like(answer, { counters: { lastMinute: { requests: requests + 1, tokens: tokens + 5 } } }, window);
    t.like((await side.counters()).lastMinute, { requests: requests + 1, tokens: tokens + 5 }, window);
  }
});
