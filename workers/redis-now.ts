import type { Redis } from 'ioredis';

/** Milliseconds of Redis's clock, the only one that decides anything. */
export async function redisNow(redis: Redis): Promise<number> {
  const [seconds, microseconds] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}

/** Clocks that differ by more are not to be trusted with what cannot be brought back. */
const clocksApartMsMax = 86_400_000;

/** Redis's time, if this machine's says much the same; undefined if it does not, so that nothing old can be told. */
export async function agreedNow(redis: Redis, now: () => number = Date.now): Promise<number | undefined> {
  const nowMs = await redisNow(redis);
  return Math.abs(nowMs - now()) > clocksApartMsMax ? undefined : nowMs;
}
