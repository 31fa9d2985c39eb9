import type { Redis } from 'ioredis';

/** Milliseconds of Redis's clock, the only one that decides anything. */
export async function redisNow(redis: Redis): Promise<number> {
  const [seconds, microseconds] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}
