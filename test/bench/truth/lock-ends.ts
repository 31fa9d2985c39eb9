import { createHash } from 'node:crypto';
import type { Redis } from '../../../shared/redis/connections.ts';
import { leaseEndsKey } from '../../../shared/redis/keys.ts';
import { openRedis } from '../../support/open-redis.ts';

/** When Redis removes the entries of running requests, in Unix milliseconds, and for which reason. */
export type LockEnd = { at: number; by: string };

/** When the last lease of this account expires. Undefined if it has none. */
export async function lastLeaseEnd(redisUrl: string, account: string): Promise<LockEnd | undefined> {
  return await withRedis(redisUrl, async (redis) => {
    const [, at] = await redis.zrange(leaseEndsKey(account), '-1', '-1', 'WITHSCORES');
    return at === undefined ? undefined : { at: Number(at), by: 'its lease’s end' };
  });
}

/**
 * When LiteLLM's Redis removes the slots that this client key holds: a sorted set, named for the key or its SHA-256, which lives for as
 * long after the last one was taken as each of them counts. Undefined if there is none.
 */
export async function lastSlotEnd(redisUrl: string, clientKey: string): Promise<LockEnd | undefined> {
  const names = [clientKey, createHash('sha256').update(clientKey).digest('hex')];
  return await withRedis(redisUrl, async (redis) => {
    const lives = await Promise.all(names.map((name) => redis.pttl(`{api_key:${name}}:max_parallel_requests`)));
    const longest = Math.max(0, ...lives);
    return longest === 0 ? undefined : { at: Date.now() + longest, by: 'its key’s TTL' };
  });
}

async function withRedis<Value>(url: string, ask: (redis: Redis) => Promise<Value>): Promise<Value> {
  const redis = openRedis(url);
  try {
    return await ask(redis);
  } finally {
    redis.disconnect();
  }
}
