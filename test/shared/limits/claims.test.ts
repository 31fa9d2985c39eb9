import test from 'ava';
import type { Claim, ClaimEnd } from '../../../shared/idempotency/claim.ts';
import { claimKey, endedRequestKey } from '../../../shared/redis/keys.ts';
import { openOwnLimits } from '../../support/own-limits.ts';

const claim: Claim = { idempotencyKey: 'order 17', bodyMarks: ['mark-a'] };
const otherBody: Claim = { ...claim, bodyMarks: ['mark-b'] };
const answer = Buffer.from([0, 255, 128, 10, 13, 0]);
const kept: ClaimEnd = { end: 'kept', answer };

const { redis, freshAccount } = openOwnLimits(test);

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
