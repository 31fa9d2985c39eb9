import { z } from 'zod';
import { mastersOf, type Redis } from './connections.ts';

const timeSchema = z.tuple([z.coerce.number(), z.coerce.number()]);

/**
 * Milliseconds of Redis's clock, the only clock that decisions use (contract.md#m4-one-clock, decisions.md#redis-as-the-only-clock). `key`:
 * the key whose times it is compared with. In a cluster, that key's node answers, because the clocks of nodes differ a little; without a
 * key, the first node that answers.
 */
export async function redisNow(redis: Redis, key?: string): Promise<number> {
  const isKeyed = redis.isCluster && key !== undefined;
  const answer = isKeyed ? await redis.eval("return redis.call('TIME')", 1, key) : await timeOfAny(redis);
  const [seconds, microseconds] = timeSchema.parse(answer);
  return seconds * 1_000 + Math.floor(microseconds / 1_000);
}

async function timeOfAny(redis: Redis): Promise<unknown> {
  if (!redis.isCluster) return redis.time();
  const nodes = mastersOf(redis);
  if (nodes.length === 0) throw new Error('no node of the Redis Cluster is connected');
  try {
    return await Promise.any(nodes.map((node) => node.time()));
  } catch (error) {
    throw error instanceof AggregateError ? error.errors[0] : error;
  }
}
