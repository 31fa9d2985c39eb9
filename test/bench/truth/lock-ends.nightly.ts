import { createHash } from 'node:crypto';
import test from 'ava';
import { leaseEndsKey } from '../../../shared/redis/keys.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { lastLeaseEnd, lastSlotEnd } from './lock-ends.ts';

test('a lock ends with its last lease, or with the TTL of its slots, as stored in Redis', async (t) => {
  await using own = await openRedisDatabase();
  const { url } = own;
  t.is(await lastLeaseEnd(url, 'user:a'), undefined);
  t.is(await lastSlotEnd(url, 'sk-a'), undefined);

  await own.redis.zadd(leaseEndsKey('user:a'), 2_000, 'one', 3_000, 'other');
  t.is((await lastLeaseEnd(url, 'user:a'))?.at, 3_000);

  const name = createHash('sha256').update('sk-a').digest('hex');
  const expiresAt = Date.now() + 3_600_000;
  const slots = `{api_key:${name}}:max_parallel_requests`;
  await own.redis.zadd(slots, 1, 'slot');
  await own.redis.pexpireat(slots, expiresAt);
  const end = await lastSlotEnd(url, 'sk-a');
  t.true(Math.abs((end?.at ?? 0) - expiresAt) < 1_000, String(end?.at));
  t.is(await lastSlotEnd(url, 'sk-b'), undefined, 'another key has no slots');
});
