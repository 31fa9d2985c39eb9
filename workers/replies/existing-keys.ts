import { inOneSlot, type Redis } from '../../shared/redis/connections.ts';

/** Returns those of these keys that exist. One command is enough if all of them exist, or none; in a cluster, one for each slot. */
export async function existingKeys(redis: Redis, keys: readonly string[]): Promise<ReadonlySet<string>> {
  const found = await Promise.all(inOneSlot(redis, keys).map((group) => existingOf(redis, group)));
  return new Set(found.flat());
}

async function existingOf(redis: Redis, keys: readonly string[]): Promise<readonly string[]> {
  const count = keys.length === 0 ? 0 : await redis.exists(...keys);
  if (count === 0 || count === keys.length) return keys.slice(0, count);
  const exist = await Promise.all(keys.map((key) => redis.exists(key)));
  return keys.filter((_, index) => exist[index] === 1);
}
