import type { Redis } from 'ioredis';

/** Returns those of these keys that exist. One command is enough if all of them exist, or none. */
export async function existingKeys(redis: Redis, keys: readonly string[]): Promise<ReadonlySet<string>> {
  const count = keys.length === 0 ? 0 : await redis.exists(...keys);
  if (count === 0 || count === keys.length) return new Set(keys.slice(0, count));
  const exist = await Promise.all(keys.map((key) => redis.exists(key)));
  return new Set(keys.filter((_, index) => exist[index] === 1));
}
