import { Registry } from 'prom-client';
import { redisNow } from '../../../shared/redis/connections.ts';
import { partitionCount } from '../../../shared/redis/keys.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { createEndLeases, createExpireLeases } from '../../../workers/requests/expire-leases.ts';
import { nodesOf, openRedis } from '../open-redis.ts';
import { fixClock } from '../redis-clock.ts';

/**
 * Expires the leases of every partition with a clock that is `aheadMs` ahead. Without it, leases that no process ends would have to expire
 * first. Call it only when nothing runs any more.
 */
export async function endLeasesNow(redisUrl: string, { aheadMs, requestMs }: { aheadMs: number; requestMs: number }) {
  const redis = openRedis(redisUrl);
  try {
    await nodesOf(redis); // the nodes of a cluster are not known at first
    const now = (await redisNow(redis)) + aheadMs;
    fixClock(redis, now);
    let lookedAt = now;
    const metrics = createWorkerMetrics(new Registry());
    const expireLeases = createExpireLeases({
      redis,
      endLeases: createEndLeases(redis, { requestMs: () => requestMs }),
      requestMs: () => requestMs,
      metrics,
      now: async () => lookedAt,
    });
    // In a cluster, no lease expires in the first minute of a worker.
    for (const agoMs of [60_000, 30_000, 0]) {
      lookedAt = now - agoMs;
      for (let partition = 0; partition < partitionCount; partition += 1) await expireLeases(partition);
    }
  } finally {
    redis.disconnect();
  }
}
