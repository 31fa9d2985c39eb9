import type { Redis } from 'ioredis';

/** Milliseconds of Redis's clock, the only clock that decisions use (contract.md#m4-one-clock, decisions.md#redis-as-the-only-clock). */
export async function redisNow(redis: Redis): Promise<number> {
  const [seconds, microseconds] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}

/** If clocks differ by more than this, nothing is removed permanently. */
const clocksApartMsMax = 86_400_000;

/** Redis's time. Undefined if this machine's clock differs by more than a day, because then the age of data is unknown. */
export async function agreedNow(redis: Redis, now: () => number = Date.now): Promise<number | undefined> {
  const nowMs = await redisNow(redis);
  return Math.abs(nowMs - now()) > clocksApartMsMax ? undefined : nowMs;
}
