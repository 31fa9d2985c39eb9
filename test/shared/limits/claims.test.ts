import test from 'ava';
import type { Claim, ClaimEnd } from '../../../shared/jobs/idempotency.ts';
import {
  claimKey,
  countersKey,
  endedRequestKey,
  keptAnswersKey,
  keptBytesKey,
  keptRoomKey,
  leasesKey,
} from '../../../shared/redis/keys.ts';
import type { LimitsSide } from '../../support/limits-side.ts';
import { noon, openOwnLimits } from '../../support/own-limits.ts';

const claim: Claim = { idempotencyKey: 'order 17', bodyMarks: ['mark-a'], isStream: false };
const otherBody: Claim = { ...claim, bodyMarks: ['mark-b'] };
const answer = Buffer.from([0, 255, 128, 10, 13, 0]);
const kept: ClaimEnd = { end: 'kept', answer };

const { redis, setTime, freshAccount } = openOwnLimits(test);

const endOf = (end: ClaimEnd) => ({ claim: { idempotencyKey: claim.idempotencyKey, bodyMark: 'mark-a', ...end } });

test.serial('the answer is kept with the settlement, byte for byte, for ten minutes', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a', claim });
  await side.start('a');
  t.true(await side.settle('a', { tokens: 10, ...endOf(kept) }));
  const charged = await side.counters();
  t.like(await side.admit({ requestId: 'b', claim }), { outcome: 'repeated', how: 'kept', first: side.idOf('a') });
  t.deepEqual(await redis().hgetBuffer(claimKey(side.account, claim.idempotencyKey), 'answer'), answer);
  t.deepEqual(await side.counters(), charged);
  const left = await redis().pttl(claimKey(side.account, claim.idempotencyKey));
  t.true(left > 590_000 && left <= 600_000, String(left));
  await redis().del(claimKey(side.account, claim.idempotencyKey));
  t.like(await side.admit({ requestId: 'b', claim }), { outcome: 'admitted' });
});

test.serial('another body with the same key is a mismatch, while it runs and afterwards', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a', claim });
  t.like(await side.admit({ requestId: 'b', claim: otherBody }), { outcome: 'repeated', how: 'mismatch' });
  await side.start('a');
  await side.settle('a', endOf(kept));
  t.like(await side.admit({ requestId: 'b', claim: otherBody }), { how: 'mismatch' });
  const marks = { ...claim, bodyMarks: ['mark', 'mark-a'] } as const;
  t.like(
    await side.admit({ requestId: 'b', claim: marks }),
    { how: 'kept' },
    'any of the marks counts, if it is whole',
  );
  t.like(await side.admit({ requestId: 'b', claim: { ...claim, bodyMarks: ['mark'] } }), { how: 'mismatch' });
});

test.serial('accounts do not share keys', async (t) => {
  const [one, other] = [await freshAccount(), await freshAccount()];
  await one.admit({ requestId: 'a', claim });
  t.like(await other.admit({ requestId: 'a', claim: otherBody }), { outcome: 'admitted' });
});

test.serial('a run that was overtaken keeps no answer', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a', claim });
  await side.start('a');
  await side.start('a', 2);
  t.false(await side.settle('a', { run: 1, ...endOf({ end: 'kept', answer: Buffer.from('of the first run') }) }));
  t.like(await side.admit({ requestId: 'b', claim }), { how: 'running' });
  t.true(await side.settle('a', { run: 2, ...endOf(kept) }));
  t.false(await side.settle('a', { run: 1, ...endOf({ end: 'kept', answer: Buffer.from('of the first run') }) }));
  t.deepEqual(await redis().hgetBuffer(claimKey(side.account, claim.idempotencyKey), 'answer'), answer);
});

test.serial('a request that was settled by a process without claims counts as lost', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a', claim });
  await side.start('a');
  t.true(await side.settle('a'));
  t.true((await redis().get(endedRequestKey(side.account, side.idOf('a'))))?.startsWith('settled'));
  t.like(await side.admit({ requestId: 'b', claim }), { outcome: 'repeated', how: 'lost' });
});

test.serial('a request that is settled after another one has its key leaves that claim as it is', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a', claim });
  await side.start('a');
  await redis().del(claimKey(side.account, claim.idempotencyKey));
  t.like(await side.admit({ requestId: 'b', claim }), { outcome: 'admitted' });
  t.true(await side.settle('a', endOf(kept)));
  t.like(await side.admit({ requestId: 'c', claim }), { how: 'running', first: side.idOf('b') });
});

test.serial('a request that is settled after Redis was emptied keeps its answer', async (t) => {
  const side = await freshAccount();
  await side.admit({ requestId: 'a', claim });
  await redis().del(claimKey(side.account, claim.idempotencyKey));
  await side.start('a');
  t.true(await side.settle('a', endOf(kept)));
  t.like(await side.admit({ requestId: 'b', claim }), { how: 'kept' });
  t.like(await side.admit({ requestId: 'b', claim: otherBody }), { how: 'mismatch' });
});

const mebibyte = 1_048_576;
const claimNamed = (name: string, isStream = false): Claim => ({
  idempotencyKey: name,
  bodyMarks: ['mark-a'],
  isStream,
});
const endNamed = (name: string, end: ClaimEnd) => ({ claim: { idempotencyKey: name, bodyMark: 'mark-a', ...end } });

/** What the account has reserved and keeps, and the sums of its partition by the minutes from noon. */
async function bytesOf({ account }: LimitsSide) {
  const [keeping, kept] = await redis().hmget(countersKey(account), 'keeping', 'kept');
  const sums = await redis().hgetall(keptBytesKey(account));
  const minutes = Object.entries(sums).map(([minute, bytes]) => [Number(minute) - noon / 60_000, Number(bytes)]);
  return { keeping: Number(keeping), kept: Number(kept), sums: Object.fromEntries(minutes) as Record<number, number> };
}

test.serial('an account reserves 1 MiB for each answer, at most 16 MiB, until its requests end', async (t) => {
  const side = await freshAccount();
  for (let index = 0; index < 16; index++) {
    const admitted = await side.admit({ requestId: `${index}`, claim: claimNamed(`${index}`) });
    t.like(admitted, { outcome: 'admitted', bytesReserved: mebibyte });
  }
  const refused = { outcome: 'refused', limit: 'idempotency', waitMs: 1_000 };
  t.like(await side.admit({ requestId: 'more', claim: claimNamed('more') }), refused);
  t.is((await side.counters()).lastMinute.requests, 16, 'a refusal charges nothing');
  t.is(await redis().exists(claimKey(side.account, 'more')), 0);
  t.like(await side.admit({ requestId: 'without' }), { outcome: 'admitted', bytesReserved: 0 });
  t.like(await side.admit({ requestId: '3', claim: claimNamed('3') }), {
    outcome: 'admitted',
    bytesReserved: mebibyte,
  });

  await side.start('0');
  await side.settle('0', endNamed('0', { end: 'kept', answer: Buffer.alloc(5_000) }));
  t.like(await bytesOf(side), { keeping: 15 * mebibyte, kept: 6_024 });
  t.like(await side.admit({ requestId: 'more', claim: claimNamed('more') }), refused, 'less than 1 MiB is left');
  t.is(await side.release('1', { claim: claimNamed('1') }), 'released');
  t.like(await side.admit({ requestId: 'more', claim: claimNamed('more') }), { outcome: 'admitted' });
});

test.serial('a device reserves 64 KiB, and a stream only what its claim takes', async (t) => {
  const device = await freshAccount({ account: 'device:0123' });
  t.like(await device.admit({ requestId: 'a', claim: claimNamed('a') }), { bytesReserved: 65_536 });
  t.like(await device.admit({ requestId: 'b', claim: claimNamed('b', true) }), { bytesReserved: 1_024 });
  t.like(await bytesOf(device), { keeping: 66_560 });
  t.true(keptBytesKey(device.account).endsWith(':device'), 'devices are summed apart');
});

test.serial(
  'a lease frees what it has reserved however it ends, and a claim without an answer counts for 1 KiB',
  async (t) => {
    const side = await freshAccount();
    const lastMinutes = 12; // the deadline of ten minutes, and the two until every lease has ended
    for (const name of ['kept', 'lost', 'free', 'without claim', 'released', 'expired', 'long'])
      await side.admit({ requestId: name, claim: claimNamed(name) });
    t.deepEqual(await bytesOf(side), { keeping: 7 * mebibyte, kept: 0, sums: { [lastMinutes]: 7 * mebibyte } });
    for (const name of ['kept', 'lost', 'free', 'without claim', 'long']) await side.start(name);
    await setTime(noon + 1_000);
    await side.settle('kept', endNamed('kept', { end: 'kept', answer: Buffer.alloc(100) }));
    await side.settle('lost', endNamed('lost', { end: 'lost' }));
    await side.settle('free', { tokens: 0, ...endNamed('free', { end: 'free' }) });
    await side.settle('long', endNamed('long', { end: 'kept', answer: Buffer.alloc(mebibyte + 37) }));
    t.deepEqual(await bytesOf(side), {
      ...{ keeping: 3 * mebibyte, kept: 1_124 + 1_024 + mebibyte },
      sums: { [lastMinutes]: 3 * mebibyte, 10: 1_124 + 1_024 + mebibyte },
    });
    await side.settle('without claim');
    await side.release('released', { claim: claimNamed('released') });
    t.like(await bytesOf(side), { keeping: mebibyte, kept: 2_148 + mebibyte });
    await setTime(noon + 300_000);
    t.is(await side.endLeases(), 1);
    t.like(await bytesOf(side), { keeping: 0, kept: 2_148 + mebibyte });
    const left = await redis().pttl(keptAnswersKey(side.account));
    t.true(left > 590_000 && left <= 600_000, String(left));
  },
);

test.serial('kept answers free their bytes when they expire, and the wait is until enough have', async (t) => {
  const side = await freshAccount({ keptBytesMax: 2 * mebibyte });
  for (const [name, atMs] of [
    ['first', 0],
    ['second', 60_000],
    ['third', 61_000],
  ] as const) {
    await setTime(noon + atMs);
    await side.admit({ requestId: name, claim: claimNamed(name) });
    await side.start(name);
    await side.settle(name, endNamed(name, { end: 'kept', answer: Buffer.alloc(500_000) }));
  }
  const refused = { outcome: 'refused', limit: 'idempotency' };
  const asked = { requestId: 'a', claim: claimNamed('a') };
  t.like(await side.admit(asked), { ...refused, waitMs: 539_000 });
  await setTime(noon + 599_999);
  t.like(await side.admit(asked), { ...refused, waitMs: 1 });
  await setTime(noon + 600_000);
  t.like(await side.admit(asked), { outcome: 'admitted' });
  t.like(await bytesOf(side), { keeping: mebibyte, kept: 2 * 501_024 });
  t.like(await side.admit({ requestId: 'b', claim: claimNamed('b') }), { ...refused, waitMs: 1_000 }, 'it runs');
});

test.serial('expired answers of any number make room at once', async (t) => {
  const side = await freshAccount({ keptBytesMax: mebibyte });
  const members = Array.from({ length: 1_024 }, (_, index) => [noon - 1, `req ${index} 1024`]).flat();
  await redis().zadd(keptAnswersKey(side.account), ...members);
  await redis().hset(countersKey(side.account), 'kept', 1_024 * 1_024);
  t.like(await side.admit({ requestId: 'a', claim }), { outcome: 'admitted' });
  t.like(await bytesOf(side), { kept: 0, keeping: mebibyte });
});

test.serial('an account over its budget is refused with a wait, also if all that it keeps has expired', async (t) => {
  const side = await freshAccount({ keptBytesMax: mebibyte });
  const members = Array.from({ length: 1_030 }, (_, index) => [noon - 1, `req ${index} 2048`]).flat();
  await redis().zadd(keptAnswersKey(side.account), ...members);
  await redis().hset(countersKey(side.account), 'kept', 4 * mebibyte);
  t.like(await side.admit({ requestId: 'a', claim }), { outcome: 'refused', limit: 'idempotency', waitMs: 1 });
  t.like(await side.admit({ requestId: 'a', claim }), { outcome: 'admitted' });
});

test.serial('sums that no process could keep right are begun again when nothing is held', async (t) => {
  const side = await freshAccount();
  await redis().hset(countersKey(side.account), 'kept', 15 * mebibyte, 'keeping', 15 * mebibyte);
  t.like(await side.admit({ requestId: 'a', claim }), { outcome: 'admitted' });
  t.like(await bytesOf(side), { kept: 0, keeping: mebibyte });
});

test.serial('without room for all accounts the request runs, and nothing is reserved for its answer', async (t) => {
  const side = await freshAccount();
  const room = keptRoomKey(side.account);
  await redis().set(room, 2 * mebibyte, 'PX', 60_000);
  for (const [name, bytesReserved, left] of [
    ['a', mebibyte, mebibyte],
    ['b', mebibyte, 0],
    ['c', 1_024, -1_024],
  ] as const) {
    t.like(
      await side.admit({ requestId: name, claim: claimNamed(name) }),
      { outcome: 'admitted', bytesReserved },
      name,
    );
    t.is(await redis().get(room), String(left));
    t.true((await redis().pttl(room)) > 0);
  }
  t.like(await side.admit({ requestId: 'd', claim: claimNamed('c') }), { outcome: 'repeated', how: 'running' });
  await redis().del(room);
});

test.serial('a claim that is settled after Redis was emptied counts, too', async (t) => {
  const side = await freshAccount();
  await redis().del(countersKey(side.account), keptBytesKey(side.account));
  t.true(await side.settle('a', { admittedAt: noon, ...endOf(kept) }));
  t.deepEqual(await bytesOf(side), { keeping: 0, kept: 1_030, sums: { 10: 1_030 } });
  t.true((await redis().pttl(countersKey(side.account))) > 0);
});

test.serial('ten repeats count for nothing, and each further one is a request of the minute and the day', async (t) => {
  const side = await freshAccount();
  const allowance = {
    requestsPerMinute: 3,
    requestsPerDay: 3,
    tokensPerMinute: 100,
    requestsAtOnce: 1,
    tokensPerMonth: 1,
  };
  const key = { id: 'key_02', limits: { requestsPerMinute: 3 } };
  await side.admit({ requestId: 'a', claim, key, allowance });
  const before = await side.counters(key);
  const repeated = { outcome: 'repeated', how: 'running', first: side.idOf('a') } as const;
  const ask = (requestId: string, how = allowance) => side.admit({ requestId, claim, key, allowance: how });
  for (let index = 1; index <= 9; index++) t.like(await ask(`${index}`), repeated);
  t.like(await side.admit({ requestId: '10', claim: otherBody, key, allowance }), { how: 'mismatch' });
  t.deepEqual(await side.counters(key), before);

  for (const requests of [2, 3]) {
    t.like(await ask(`more ${requests}`), repeated, 'whatever tokens, requests at once and the month say');
    const { key: ofKey, ...ofAccount } = await side.counters(key);
    t.like(ofAccount, { lastMinute: { requests, tokens: 100 }, dayRequests: requests, reservedTokens: 100 });
    t.like(ofKey, { lastMinute: { requests, tokens: 100 } });
  }
  t.like(await ask('refused'), { outcome: 'refused', limit: 'day' });
  t.like(await ask('refused', { ...allowance, requestsPerDay: 10 }), { outcome: 'refused', limit: 'requests' });
  const looked = await side.admission.readCounters({ account: side.account, requestId: 'look', version: 1, claim });
  t.is(looked.outcome, 'counters', 'a request that is refused for another reason is refused');
  t.is(await redis().hlen(leasesKey(side.account)), 1, 'a repeat has no lease');
});
