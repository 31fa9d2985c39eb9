import test from 'ava';
import type { Lane } from '../../../shared/lane.ts';
import { type Allowance, createAdmit, type LookKey } from '../../../shared/limits/admit.ts';
import { createRelease } from '../../../shared/limits/release.ts';
import { createSettle } from '../../../shared/limits/settle.ts';
import {
  countersKey,
  leaseEndsKey,
  leaseHolderOf,
  leaseHoldersKey,
  leasesKey,
  partitionOf,
} from '../../../shared/redis/keys.ts';
import { createEndLeases } from '../../../workers/leases/end-leases.ts';
import { createStartRun } from '../../../workers/leases/start-run.ts';
import { lostReport, timeouts } from '../../support/limits-side.ts';
import { noon, openOwnLimits } from '../../support/own-limits.ts';

const deadline = noon + timeouts.requestMs;
const day = 86_400_000;

const { redis, setTime, freshAccount } = openOwnLimits(test);

/** A new account whose month is counted, with the calls of both lanes. */
async function open() {
  const side = await freshAccount();
  const { account } = side;
  const admit = createAdmit(redis(), { timeouts: () => timeouts, outboxLengthMax: 1_000_000 });
  const start = createStartRun(redis());
  const settle = createSettle(redis(), { pauseMs: 1 });
  const release = createRelease(redis());
  const endLeases = createEndLeases(redis(), { requestMs: () => timeouts.requestMs });
  const laneOf = (lane: Lane) => ({
    admit: (name: string, allowance: Partial<Allowance> = {}, key?: LookKey) =>
      admit.admit(
        { account, requestId: side.idOf(name), version: 1, lane, key },
        { allowance: { overageEnabled: false, ...allowance }, tokens: 100, report: lostReport },
      ),
    start: (name: string, taken = 1) => start({ account, requestId: side.idOf(name), taken, lane }),
    settle: async (name: string, { run = 1, tokens = 10, settler = 'worker' } = {}) => {
      const settled = await settle({
        ...{ account, requestId: side.idOf(name), run, settler, tokens, lane },
        report: { ...lostReport, outcome: 'completed', endedRuns: [run] },
        admission: { admittedAt: noon, deadline, overage: false },
      });
      return settled === 'settled';
    },
    release: (name: string, run?: number | 'any') =>
      release({ account, requestId: side.idOf(name), lane, ...(run !== undefined && { run }) }),
    endLeases: () => endLeases({ account, lane }, Number.MAX_SAFE_INTEGER),
    held: async () => redis().hlen(leasesKey(account, lane)),
  });
  return {
    ...{
      account,
      counters: side.counters,
      seed: side.seed,
      seedKey: side.seedKey,
      batch: laneOf('batch'),
      interactive: laneOf('interactive'),
    },
    outbox: async () => (await side.outbox()).filter((record) => record.account === account),
  };
}

const lanes = ['batch', 'interactive'] as const;

test.serial('a line is charged to the month, and neither to the minute nor to the day', async (t) => {
  const { batch, counters } = await open();
  const nothingNow = { dayRequests: 0, lastMinute: { requests: 0, tokens: 0, resetMs: 0 } };
  t.like(await batch.admit('a'), { outcome: 'admitted', counters: { ...nothingNow, reserved: 100, used: 0 } });
  await batch.start('a');
  t.true(await batch.settle('a', { tokens: 40 }));
  t.like(await counters(), { ...nothingNow, reserved: 0, used: 40 });
});

test.serial('a line never changes the minute and the day of requests, in whichever way it ends', async (t) => {
  const { batch, interactive, counters } = await open();
  await interactive.admit('request');
  const before = await counters();
  t.like(before, { dayRequests: 1, lastMinute: { requests: 1, tokens: 100 } });
  for (const name of ['settled', 'released', 'lost']) {
    await batch.admit(name);
    await batch.start(name);
  }
  await batch.settle('settled', { tokens: 1_000 });
  await batch.release('released', 'any');
  const { dayRequests, lastMinute } = await counters();
  t.deepEqual({ dayRequests, lastMinute }, { dayRequests: before.dayRequests, lastMinute: before.lastMinute });
});

test.serial('a line counts against the month of its key, and not against the minute of its key', async (t) => {
  const { batch, interactive, counters, seedKey } = await open();
  const key = { id: lostReport.keyId, limits: { requestsPerMinute: 1, tokensPerMinute: 100, tokensPerMonth: 1_000 } };
  await seedKey(key.id, '2030-05');
  t.like(await interactive.admit('request', {}, key), { outcome: 'admitted' });
  for (const name of ['a', 'b']) t.like(await batch.admit(name, {}, key), { outcome: 'admitted' });
  t.like((await counters(key)).key, { lastMinute: { requests: 1, tokens: 100 }, reserved: 300 });
  t.like(await interactive.admit('another', {}, key), { outcome: 'refused', limit: 'key_requests' });
  await seedKey(key.id, '2030-05');
  t.like((await counters(key)).key, { reserved: 300 }, 'counted again');
});

test.serial('a line is admitted while the month has a token left, and refused when it has none', async (t) => {
  const { batch, counters } = await open();
  t.like(await batch.admit('a', { tokensPerMonth: 101 }), { outcome: 'admitted' });
  t.like(await batch.admit('b', { tokensPerMonth: 101 }), { outcome: 'admitted', counters: { reserved: 200 } });
  t.like(await batch.admit('c', { tokensPerMonth: 200 }), { outcome: 'refused', limit: 'quota', waitMs: 0 });
  t.like(await batch.admit('c', { tokensPerMonth: 200, overageEnabled: true }), {
    ...{ outcome: 'admitted', admission: { overage: true } },
  });
  const bounded = { tokensPerMonth: 200, overageEnabled: true, overageTokensPerMonth: 100 };
  t.like(await batch.admit('d', bounded), { outcome: 'refused', limit: 'quota' });
  t.like(await counters(), { reserved: 300 });
});

for (const lane of lanes) {
  const other = lane === 'batch' ? 'interactive' : 'batch';

  test.serial(
    `concurrent requests of the ${lane} lane are counted up to its limit, without those of the ${other} lane`,
    async (t) => {
      const side = await open();
      for (const name of ['a', 'b', 'c']) await side[other].admit(name);
      t.like(await side[lane].admit('d', { requestsAtOnce: 2 }), { outcome: 'admitted' });
      t.like(await side[lane].admit('e', { requestsAtOnce: 2 }), { outcome: 'admitted' });
      t.like(await side[lane].admit('f', { requestsAtOnce: 2 }), { outcome: 'refused', limit: 'concurrency' });
      t.like(await side[other].admit('g', { requestsAtOnce: 4 }), { outcome: 'admitted' });
      t.like(await side[other].admit('h', { requestsAtOnce: 4 }), { outcome: 'refused', limit: 'concurrency' });
      await side[lane].release('d', 'any');
      t.like(await side[lane].admit('f', { requestsAtOnce: 2 }), { outcome: 'admitted' });
    },
  );
}

test.serial('a started line is released by its latest run, or with run any', async (t) => {
  const { batch, counters } = await open();
  for (const name of ['a', 'b']) {
    await batch.admit(name);
    await batch.start(name, 1);
    await batch.start(name, 2);
  }
  t.is(await batch.release('a'), 'started', 'not by the admission alone');
  t.is(await batch.release('a', 1), 'started', 'not by a superseded run');
  t.is(await batch.release('a', 3), 'started');
  t.like(await counters(), { reserved: 200 });
  t.is(await batch.release('a', 2), 'released');
  t.is(await batch.release('a', 2), 'released');
  t.is(await batch.release('b', 'any'), 'released');
  t.like(await counters(), { reserved: 0, used: 0 });
  t.is(await batch.held(), 0);
  t.deepEqual(await batch.admit('a'), { outcome: 'ended' });
});

test.serial('a line that was only admitted is released with any run or none', async (t) => {
  const { batch, counters } = await open();
  for (const [name, run] of [
    ['a', undefined],
    ['b', 'any'],
    ['c', 1],
  ] as const) {
    await batch.admit(name);
    t.is(await batch.release(name, run), 'released');
  }
  t.like(await counters(), { reserved: 0 });
});

test.serial('a line that is never ended holds its lease for a day past its deadline, and no longer', async (t) => {
  const { batch, outbox, counters } = await open();
  await batch.admit('a');
  await batch.start('a');
  await setTime(deadline + day - 1);
  t.is(await batch.endLeases(), 0);
  t.is(await batch.held(), 1);
  await setTime(deadline + day);
  t.is(await batch.endLeases(), 1);
  t.like(await counters(), { reserved: 0, used: 0 });
  t.like(await outbox(), { 0: { outcome: 'lost', runs: 1, chargedTokens: 0 }, length: 1 });
  t.false(await batch.settle('a'), 'it was recorded as lost');
});

test.serial('a line can be settled at any time of that day', async (t) => {
  const { batch, counters } = await open();
  await batch.admit('a');
  await batch.start('a');
  await setTime(deadline + day - 1);
  await batch.endLeases();
  t.true(await batch.settle('a', { tokens: 40 }));
  t.like(await counters(), { used: 40, reserved: 0 });
});

test.serial('a line that was admitted and never started ends as soon as a request would', async (t) => {
  const { batch } = await open();
  await batch.admit('a');
  await setTime(noon + timeouts.queueMs + 29_999);
  t.is(await batch.endLeases(), 0);
  await setTime(noon + timeouts.queueMs + 30_000);
  t.is(await batch.endLeases(), 1);
});

test.serial('the leases of each lane are ended separately, and each lane is listed with its next end', async (t) => {
  const { account, batch, interactive } = await open();
  const holders = leaseHoldersKey(partitionOf(account));
  const notedFor = async (lane: Lane) => redis().zscore(holders, leaseHolderOf({ account, lane }));
  for (const lane of [batch, interactive]) {
    await lane.admit(lane === batch ? 'line' : 'request');
    await lane.start(lane === batch ? 'line' : 'request');
    await lane.endLeases();
  }
  for (const lane of lanes) t.is(Number(await notedFor(lane)), noon + 60_000);
  await setTime(noon + 60_000);
  t.is(await batch.endLeases(), 0);
  t.is(await interactive.held(), 1);
  t.is(await interactive.endLeases(), 1);
  t.is(Number(await notedFor('interactive')), noon + 120_000, 'after its minute is over permanently');
  t.is(await batch.held(), 1);
  await setTime(deadline + day);
  t.is(await batch.endLeases(), 1);
  t.is(await notedFor('batch'), null);
});

test.serial('a lease from a clock that was set back far lives no longer than any other of its lane', async (t) => {
  const { account, batch } = await open();
  await batch.admit('a');
  await batch.start('a');
  const back = noon - 10 * day;
  await setTime(back);
  await batch.endLeases();
  const lifeMsMax = timeouts.requestMs + day;
  t.is(Number(await redis().zscore(leaseEndsKey(account, 'batch'), `user-${account.slice(5)}/a`)), back + lifeMsMax);
  await setTime(back + lifeMsMax - 1);
  t.is(await batch.endLeases(), 0);
  await setTime(back + lifeMsMax);
  t.is(await batch.endLeases(), 1);
});

test.serial('counting a month includes the reservations of both lanes', async (t) => {
  const { account, batch, interactive, seed, counters } = await open();
  await batch.admit('a');
  await batch.admit('b');
  await interactive.admit('c');
  await interactive.start('c');
  await interactive.settle('c', { tokens: 7 });
  await interactive.admit('d');
  t.deepEqual((await seed('2030-05', 'compare')).after, { used: 7, reserved: 300, overage: 0 });
  await redis().del(countersKey(account));
  await seed('2030-05');
  t.like(await counters(), { used: 7, reserved: 300 });
  await batch.release('a', 'any');
  await batch.start('b');
  await batch.settle('b', { tokens: 5 });
  t.like(await counters(), { used: 12, reserved: 100 });
});
