import type { Redis } from '../../shared/redis/connections.ts';
import { redisNow } from '../../shared/redis/redis-now.ts';

/** If clocks differ by more than this, nothing is removed permanently. */
const clocksApartMsMax = 86_400_000;

/** Redis's time. Undefined if this machine's clock differs by more than a day, because then the age of data is unknown. */
export async function agreedNow(redis: Redis, now: () => number = Date.now): Promise<number | undefined> {
  const nowMs = await redisNow(redis);
  return Math.abs(nowMs - now()) > clocksApartMsMax ? undefined : nowMs;
}
