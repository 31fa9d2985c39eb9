import { Redis } from 'ioredis';
import { Registry } from 'prom-client';
import { partitionCount } from '../../../shared/redis/keys.ts';
import { redisNow } from '../../../shared/redis/redis-now.ts';
import { createEndLeases } from '../../../workers/leases/end-leases.ts';
import { createExpireLeases } from '../../../workers/leases/expire-leases.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { replaceClock } from '../redis-clock.ts';

/**
 * Expires the leases of every partition with a clock that is `aheadMs` ahead. Without it, leases that no process ends would have to expire
 * first. Call it only when nothing runs any more.
 */
export async function endLeasesNow(redisUrl: string, { aheadMs, requestMs }: { aheadMs: number; requestMs: number }) {
  const redis = new Redis(redisUrl);
  try {
    const now = (await redisNow(redis)) + aheadMs;
    await replaceClock(redis)(now);
    redis.time = async () => [Math.floor(now / 1_000), (now % 1_000) * 1_000];
    const metrics = createWorkerMetrics(new Registry());
    const expireLeases = createExpireLeases({
      redis,
      endLeases: createEndLeases(redis, { requestMs }),
      timeouts: { requestMs },
      metrics,
    });
    for (let partition = 0; partition < partitionCount; partition += 1) await expireLeases(partition);
  } finally {
    redis.disconnect();
  }
}
