import test from 'ava';
import {
  type Lane,
  leaseEndsKey,
  leaseHolderOf,
  leaseHoldersKey,
  leasesKey,
  partitionOf,
} from '../../../shared/redis/keys.ts';
import { lostReport, openLimits, timeouts } from '../../support/limits-side.ts';
import { noon, openOwnLimits } from '../../support/own-limits.ts';

const deadline = noon + timeouts.requestMs;
const day = 86_400_000;

const { redis, setTime, freshAccount } = openOwnLimits(test);

/** A new account whose month is counted, with the calls of both lanes. */
async function open() {
  const interactive = await freshAccount();
  const { account } = interactive;
  const held = (lane: Lane) => redis().hlen(leasesKey(account, lane));
  return { account, held, interactive, batch: openLimits(redis(), { account, lane: 'batch' }) };
}

const lanes = ['batch', 'interactive'] as const;

test.serial('a line counts against the month of its key, and not against the minute of its key', async (t) => {
  const { batch, interactive } = await open();
  const key = { id: lostReport.keyId, limits: { requestsPerMinute: 1, tokensPerMinute: 100, tokensPerMonth: 1_000 } };
  await interactive.seedKey(key.id, '2030-05');
  t.like(await interactive.admit({ requestId: 'request', key }), { outcome: 'admitted' });
  for (const name of ['a', 'b']) t.like(await batch.admit({ requestId: name, key }), { outcome: 'admitted' });
  t.like((await interactive.counters(key)).key, { lastMinute: { requests: 1, tokens: 100 }, reservedTokens: 300 });
  t.like(await interactive.admit({ requestId: 'another', key }), { outcome: 'refused', limit: 'key_requests' });
  await interactive.seedKey(key.id, '2030-05');
  t.like((await interactive.counters(key)).key, { reservedTokens: 300 }, 'counted again');
});

test.serial('a line that is never ended holds its lease for a day past its deadline, and no longer', async (t) => {
  const { account, batch, held } = await open();
  await batch.admit({ requestId: 'a' });
  await batch.start('a');
  await setTime(deadline + day - 1);
  t.is(await batch.endLeases(), 0);
  t.is(await held('batch'), 1);
  await setTime(deadline + day);
  t.is(await batch.endLeases(), 1);
  const outbox = (await batch.outbox()).filter((record) => record.account === account);
  t.like(outbox, { 0: { outcome: 'lost', runs: 1, chargedTokens: 0 }, length: 1 });
  t.false(await batch.settle('a'), 'it was recorded as lost');
});

test.serial('the leases of each lane are ended separately, and each lane is listed with its next end', async (t) => {
  const { account, batch, interactive, held } = await open();
  const holders = leaseHoldersKey(partitionOf(account));
  const notedFor = async (lane: Lane) => redis().zscore(holders, leaseHolderOf({ account, lane }));
  for (const [name, side] of Object.entries({ batch, interactive })) {
    await side.admit({ requestId: name });
    await side.start(name);
    await side.endLeases();
  }
  for (const lane of lanes) t.is(Number(await notedFor(lane)), noon + 60_000);
  await setTime(noon + 60_000);
  t.is(await batch.endLeases(), 0);
  t.is(await held('interactive'), 1);
  t.is(await interactive.endLeases(), 1);
  t.is(Number(await notedFor('interactive')), noon + 120_000, 'after its minute is over permanently');
  t.is(await held('batch'), 1);
  await setTime(deadline + day);
  t.is(await batch.endLeases(), 1);
  t.is(await notedFor('batch'), null);
});

test.serial('a lease from a clock that was set back far lives no longer than any other of its lane', async (t) => {
  const { account, batch } = await open();
  await batch.admit({ requestId: 'a' });
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
