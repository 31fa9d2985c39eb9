import test from 'ava';
import { streamIdOf } from '../../../shared/jobs/usage-outbox.ts';
import { createSettle } from '../../../shared/limits/settle.ts';
import type { Redis } from '../../../shared/redis/connections.ts';
import {
  countersKey,
  endedRequestKey,
  leaseHoldersKey,
  lostRequestsKey,
  partitionOf,
  versionKey,
} from '../../../shared/redis/keys.ts';
import { createRenewLeases } from '../../../workers/requests/start-lease-heartbeat.ts';
import { lostReport, openLimits } from '../../support/limits-side.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';
import { replaceClock } from '../../support/redis-clock.ts';

const now = Date.UTC(2030, 4, 15, 12);
const startBy = now + 30_000;
const deadline = now + 600_000;

let own: PrivateRedis;
let setTime: (nowMs: number) => Promise<void>;
let accounts = 0;

test.before(async () => {
  own = await startPrivateRedis();
  setTime = replaceClock(own.redis);
});

test.after.always(() => own?.[Symbol.asyncDispose]());

/** A new account with one request, admitted at `now`. */
async function admitted() {
  await setTime(now);
  const side = openLimits(own.redis, { account: `user:${accounts++}` });
  await side.prepare('2030-05');
  await side.admit({ requestId: 'a' });
  const outbox = async () => (await side.outbox()).filter(({ account }) => account === side.account);
  return { ...side, outbox, mark: () => own.redis.get(endedRequestKey(side.account, side.idOf('a'))) };
}

test.serial('a first start is in time up to and including startBy, and late from the next millisecond', async (t) => {
  for (const [time, outcome] of [
    [startBy - 1, 'run'],
    [startBy, 'run'],
    [startBy + 1, 'late'],
  ] as const) {
    const side = await admitted();
    await setTime(time);
    t.like(await side.start('a'), { outcome, run: 1 }, String(time - startBy));
    t.like(await side.start('a'), { outcome, run: 1 }, 'a repeated call gets the same answer');
  }
});

test.serial('output of a superseded run marks nothing', async (t) => {
  const side = await admitted();
  await side.start('a', 1);
  await side.start('a', 2);
  await side.markStreaming('a', 1);
  t.like(await side.start('a', 3), { outcome: 'run', run: 3 });
});

test.serial('a started run settles even if its lease was lost and released in the meantime', async (t) => {
  const side = await admitted();
  await side.start('a');
  await own.redis.flushall();
  await setTime(now + 1_000);
  t.is(await side.release('a'), 'released');
  t.true(await side.settle('a', { admittedAt: now, tokens: 40 }));
  t.is((await side.outbox()).length, 1);
});

test.serial('a request is settled once, by its latest run, and the same settler may repeat the call', async (t) => {
  const side = await admitted();
  await side.start('a', 1);
  await side.start('a', 2);
  t.false(await side.settle('a', { run: 1, tokens: 50 }));
  t.like(await side.counters(), { chargedTokens: 0, reservedTokens: 100 });
  t.true(await side.settle('a', { run: 2, tokens: 60, settler: 'two' }));
  t.true(await side.settle('a', { run: 2, tokens: 60, settler: 'two' }));
  t.false(await side.settle('a', { run: 2, tokens: 60, settler: 'another' }));
  t.false(await side.settle('a', { run: 1, tokens: 50 }));
  t.like(await side.counters(), { chargedTokens: 60, reservedTokens: 0, lastMinute: { tokens: 60, requests: 1 } });
  const [record, ...more] = await side.outbox();
  t.deepEqual(more, []);
  t.like(record, { requestId: side.idOf('a'), chargedTokens: 60, runs: 2, month: '2030-05', overage: false });
  t.deepEqual(record?.attempts, [{ run: 1, outcome: 'lost' }]);
  t.deepEqual(record?.settledAt, new Date(now));
});

test.serial('an admitted lease expires 30 s past startBy, a started one 60 s past its start', async (t) => {
  const side = await admitted();
  await side.admit({ requestId: 'b' });
  await setTime(now + 10);
  await side.start('b');
  for (const [time, ended] of [
    [startBy + 29_999, 0],
    [startBy + 30_000, 1],
    [now + 60_009, 0],
    [now + 60_010, 1],
  ] as const) {
    await setTime(time);
    t.is(await side.endLeases(), ended, String(time - now));
  }
  t.like(await side.counters(), { chargedTokens: 0, reservedTokens: 0 });
  t.deepEqual(
    (await side.outbox()).map(({ outcome, runs, attempts }) => ({ outcome, runs, attempts })),
    [
      { outcome: 'lost', runs: 0, attempts: [] },
      { outcome: 'lost', runs: 1, attempts: [{ run: 1, outcome: 'lost' }] },
    ],
  );
});

test.serial('a lease lives for a minute from each run, and for half a minute after an interrupted one', async (t) => {
  const side = await admitted();
  for (const name of ['b', 'c']) await side.admit({ requestId: name });
  for (const name of ['a', 'b', 'c']) await side.start(name, 1);
  await side.markStreaming('c', 1);
  await setTime(now + 10_000);
  for (const name of ['a', 'b']) await side.start(name, 2);
  await side.markStreaming('a', 2);
  await setTime(now + 20_000);
  t.like(await side.start('a', 3), { outcome: 'interrupted', run: 3 });
  await setTime(now + 40_000);
  t.like(await side.start('c', 2), { outcome: 'interrupted', run: 2 }, 'which never lengthens a life');
  for (const [time, ended] of [
    [49_999, 0],
    [50_000, 1],
    [59_999, 0],
    [60_000, 1],
    [69_999, 0],
    [70_000, 1],
  ] as const) {
    await setTime(now + time);
    t.is(await side.endLeases(), ended, String(time));
  }
  await side.renew('b');
  t.is(await side.endLeases(), 0, 'no renewal restores it');
});

test.serial('no renewal shortens a lease, and one call renews many', async (t) => {
  const side = await admitted();
  const names = Array.from({ length: 30 }, (_, index) => `many ${index}`);
  for (const name of names) await side.admit({ requestId: name });
  await Promise.all(['a', ...names].map((name) => side.start(name)));
  await side.renew('a', 90_000);
  await side.renew('a', 60_000);
  const requests = names.map((name) => ({ account: side.account, requestId: side.idOf(name) }));
  await createRenewLeases(own.redis, { atMost: 7 })(requests, 80_000);
  for (const [time, ended] of [
    [79_999, 0],
    [80_000, 30],
    [89_999, 0],
    [90_000, 1],
  ] as const) {
    await setTime(now + time);
    t.is(await side.endLeases(), ended, String(time));
  }
});

test.serial('a lease that expires after the look is not ended, however late the call arrives', async (t) => {
  const side = await admitted();
  await side.start('a');
  await setTime(now + 600_000);
  t.is(await side.endLeases(now + 59_999), 0);
  t.is(await side.endLeases(now + 60_000), 1);
});

test.serial('a lost lease cannot be settled, for an hour after it was lost', async (t) => {
  const side = await admitted();
  await side.start('a');
  await setTime(deadline + 60_000);
  await side.endLeases();
  t.false(await side.settle('a'));
  t.is((await side.outbox()).length, 1);
  const until = await own.redis.zscore(lostRequestsKey(side.account), side.idOf('a'));
  t.is(Number(until), deadline + 60_000 + 3_600_000);
});

test.serial('a lease that was not ended for hours is recorded as lost once, and cannot be settled', async (t) => {
  const side = await admitted();
  await side.start('a');
  await setTime(deadline + 10_000_000);
  t.is(await side.endLeases(), 1);
  t.false(await side.settle('a', { admittedAt: now }));
  t.deepEqual(await side.admit({ requestId: 'a' }), { outcome: 'ended' });
  t.is((await side.outbox()).length, 1);
});

test.serial('all expired leases are ended, however many, and the account is checked again later', async (t) => {
  const side = await admitted();
  for (let index = 0; index < 120; index++) await side.admit({ requestId: `many ${index}` });
  await setTime(now + 1);
  await side.admit({ requestId: 'later' });
  await setTime(now + 60_000);
  const holders = leaseHoldersKey(partitionOf(side.account));
  t.is(Number(await own.redis.zscore(holders, side.account)), now + 60_000);
  t.is(await side.endLeases(), 121);
  t.is(Number(await own.redis.zscore(holders, side.account)), now + 60_001);
  await side.release('later');
  t.is(await side.endLeases(), 0);
  t.is(
    Number(await own.redis.zscore(holders, side.account)),
    now + 120_001,
    'after its last minute is over permanently',
  );
  await setTime(now + 120_001);
  t.is(await side.endLeases(), 0);
  t.is(await own.redis.zscore(holders, side.account), null);
});

test.serial('an idle account is stored compactly for the full lifetime, and its counters do not change', async (t) => {
  const side = await admitted();
  const latest = now + 5_000;
  await setTime(latest);
  await side.admit({ requestId: 'of another bucket' });
  for (const name of ['a', 'of another bucket']) {
    await side.start(name);
    await side.settle(name, { tokens: 40 });
  }
  const key = countersKey(side.account);
  const bytes = () => own.redis.memory('USAGE', key);
  await setTime(latest + 119_999);
  await side.endLeases();
  const before = await bytes();
  t.not(await own.redis.hget(key, 'window'), null, 'a clock that steps back would need it');
  await setTime(latest + 120_000);
  const counters = await side.counters();
  await side.endLeases();
  t.true(Number(await bytes()) < 300 && Number(before) > 500, `${before} bytes, then ${await bytes()}`);
  t.true((await own.redis.pttl(key)) > 61 * 86_400_000);
  t.deepEqual(await side.counters(), counters);
  t.like(counters, { chargedTokens: 80, dayRequests: 2, lastMinute: { requests: 0 } });
  t.like(await side.admit({ requestId: 'b' }), {
    outcome: 'admitted',
    counters: { dayRequests: 3, reservedTokens: 100 },
  });
});

test.serial('a lease from a clock that was set back far lives no longer than any other', async (t) => {
  const side = await admitted();
  await setTime(now - 86_400_000);
  await side.endLeases();
  await setTime(now - 86_400_000 + 660_000 - 1);
  t.is(await side.endLeases(), 0);
  await setTime(now - 86_400_000 + 660_000);
  t.is(await side.endLeases(), 1);
});

test.serial('a request whose lease Redis lost is recorded and counted once', async (t) => {
  const side = await admitted();
  await own.redis.flushall();
  await setTime(now + 1_000);
  const given = { admittedAt: now, tokens: 40, overage: true };
  t.true(await side.settle('a', given));
  t.true(await side.settle('a', given));
  t.deepEqual(
    (await side.outbox()).map(({ chargedTokens, month, overage }) => ({ chargedTokens, month, overage })),
    [{ chargedTokens: 40, month: '2030-05', overage: true }],
  );
  await side.prepare('2030-05');
  t.like(await side.counters(), { chargedTokens: 40, overageTokens: 40, reservedTokens: 0 }, 'seeded from the outbox');
  t.true(await side.settle('b', { ...given, overage: false }));
  t.like(await side.counters(), { chargedTokens: 80, overageTokens: 40, reservedTokens: 0 }, 'added to the counters');
});

test.serial('a failed settle call is repeated, and the last result is returned', async (t) => {
  let calls = 0;
  const redis = {
    defineCommand: () => {},
    async 'svc:settle'() {
      if (++calls < 3) throw new Error('READONLY');
      return 'settled';
    },
  } as unknown as Redis;
  const admission = { admittedAt: now, deadline, overage: false };
  const settlement = {
    account: 'user:a',
    requestId: 'r',
    run: 1,
    settler: 's',
    chargedTokens: 1,
    report: lostReport,
    admission,
  };
  t.is(await createSettle(redis, { pauseMs: 1 })(settlement), 'settled');
  t.is(calls, 3);
});

test.serial('repairing a month that is not counted does not start its counter', async (t) => {
  await setTime(now);
  const side = openLimits(own.redis, { account: `user:${accounts++}` });
  await own.redis.set(versionKey(side.account), 1);
  t.like(await side.seed('2030-04', 'replace'), { before: undefined });
  t.deepEqual(await side.admit({ requestId: 'b' }), { outcome: 'cold', month: '2030-05' });
});

test.serial('only the settler that has settled a request may repeat it', async (t) => {
  const side = await admitted();
  await side.start('a');
  await side.settle('a', { settler: 'taking 1' });
  t.true(await side.settle('a', { settler: 'taking 1' }));
  t.false(await side.settle('a', { settler: 'taking 10' }));
  t.false(await side.settle('a', { settler: 'taking' }));
  t.is((await side.outbox()).length, 1);
});

test.serial(
  'the mark of an ended request names its usage event, and is kept for an hour past the deadline',
  async (t) => {
    const side = await admitted();
    await side.start('a');
    await side.settle('a');
    const [record] = await side.outbox();
    t.is(await side.mark(), `settled 1 worker ${streamIdOf(record?.entry ?? '')}`);
    const lifeMs = await own.redis.pttl(endedRequestKey(side.account, side.idOf('a')));
    t.true(lifeMs > 4_190_000 && lifeMs <= 4_200_000);
  },
);

test.serial('a request can be started, streamed, settled and released while Redis is out of memory', async (t) => {
  const side = await admitted();
  await side.admit({ requestId: 'b' });
  await own.redis.config('SET', 'maxmemory', '1');
  t.teardown(() => own.redis.config('SET', 'maxmemory', '0'));
  await t.throwsAsync(own.redis.set('anything', 'else'), { message: /OOM/ });
  t.like(await side.start('a'), { outcome: 'run' });
  await side.markStreaming('a');
  t.true(await side.settle('a'));
  t.is(await side.release('b'), 'released');
  t.is(await side.endLeases(), 0);
  t.is((await side.outbox()).length, 1);
});
