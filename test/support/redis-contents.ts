import type { Redis } from '../../shared/redis/connections.ts';
import { allKeys } from './open-redis.ts';

/** Every key's name and value as text, for all types. */
export async function contentsOf(redis: Redis): Promise<string> {
  const keys = await allKeys(redis);
  const contents = await Promise.all(keys.map(async (key) => [key, await readValue(redis, key)]));
  return JSON.stringify(contents);
}

async function readValue(redis: Redis, key: string): Promise<unknown> {
  switch (await redis.type(key)) {
    case 'string':
      return redis.get(key);
    case 'hash':
      return redis.hgetall(key);
    case 'list':
      return redis.lrange(key, '0', '-1');
    case 'set':
      return redis.smembers(key);
    case 'zset':
      return redis.zrange(key, '0', '-1');
    case 'stream':
      return redis.xrange(key, '-', '+');
    default:
      return undefined; // it was deleted meanwhile
  }
}
