import type { Redis } from 'ioredis';
import type { Lane } from '../../shared/lane.ts';
import { leaseGraceMs, leaseLifeMs } from '../../shared/limits/lease-life.ts';
import { within } from '../../shared/process/shutdown.ts';
import { leaseHoldersKey, leasesKey, parseLeaseHolder } from '../../shared/redis/keys.ts';
import { redisNow } from '../redis/redis-now.ts';
import type { EndLeases } from './end-leases.ts';
import type { LeaseMetrics } from './lease-metrics.ts';

/** Accounts of a partition that are checked at a time. If there are more, the rest follow. */
const accountsAtOnce = 100;
/**
 * Longer than the time between two checks of a worker that holds any partition. If more time has passed by Redis's clock, Redis was
 * unavailable or its clock has jumped. Then nothing expires until every worker that still has its requests must have renewed them
 * (contract.md#n8-expired-leases).
 */
const awayAfterMs = 30_000;
/** Accounts whose next lease ends this far ahead usually have batches. Others are there only after a clock was set back. */
const aheadAtOnce = 1_000;

/** No lease expires later than this after its request's deadline, unless the clock has since been set back. */
const aheadMs = (lane: Lane) => leaseGraceMs.started[lane] + 60_000;

/** `ended`: how many leases. `nextMs`: time until the next one of the partition may expire; undefined if there is none. */
export type Expired = { ended: number; nextMs: number | undefined };
export type ExpireLeases = (partition: number) => Promise<Expired>;

/** Expires the leases that are past their time, in all accounts of a partition. */
export function createExpireLeases(deps: {
  redis: Redis;
  endLeases: EndLeases;
  timeouts: { requestMs: number };
  metrics: Pick<LeaseMetrics, 'leasesExpired'>;
  now?: () => Promise<number>;
}): ExpireLeases {
  const { redis, endLeases, timeouts, metrics, now: timeOf = () => redisNow(redis) } = deps;
  let seenAt: number | undefined;
  let quietUntil = 0;

  /** How long no lease may expire from this time of Redis's clock on, in milliseconds. */
  function quietMs(now: number): number {
    if (seenAt !== undefined && now - seenAt > awayAfterMs) quietUntil = now + leaseLifeMs;
    if (quietUntil > now + leaseLifeMs) quietUntil = 0; // the clock was set back
    seenAt = now;
    return Math.max(0, quietUntil - now);
  }

  return async function expireLeases(partition) {
    const holders = leaseHoldersKey(partition);
    for (let ended = 0; ; ) {
      const [[first, firstEnd], now] = await Promise.all([redis.zrange(holders, '0', '0', 'WITHSCORES'), timeOf()]);
      const untilMs = quietMs(now);
      if (first === undefined) return { ended, nextMs: undefined };
      if (untilMs > 0) return { ended, nextMs: untilMs };
      const aheadOf = (lane: Lane) => now + timeouts.requestMs + aheadMs(lane);
      const [past, notOfBatches, ahead] = await Promise.all([
        redis.zrangebyscore(holders, '-inf', now, 'LIMIT', 0, accountsAtOnce),
        redis.zrangebyscore(holders, `(${aheadOf('interactive')}`, aheadOf('batch'), 'LIMIT', 0, aheadAtOnce),
        redis.zrangebyscore(holders, `(${aheadOf('batch')}`, '+inf', 'LIMIT', 0, accountsAtOnce),
      ]);
      const interactive = notOfBatches.map(parseLeaseHolder).filter(({ lane }) => lane === 'interactive');
      const due = [...[...past, ...ahead].map(parseLeaseHolder), ...interactive];
      const counts = await Promise.all(due.map((holder) => endLeases(holder, now)));
      const latest = counts.reduce((sum, count) => sum + count, 0);
      metrics.leasesExpired.inc(latest);
      ended += latest;
      if (past.length < accountsAtOnce) return { ended, nextMs: Math.max(0, Number(firstEnd) - now) };
    }
  };
}

/** A scrape does not wait longer for Redis. */
const countMsMax = 1_000;

/** The leases that accounts of these partitions hold; undefined while Redis does not answer. */
export async function countLeases(redis: Redis, partitions: readonly number[]): Promise<number | undefined> {
  if (redis.status !== 'ready') return undefined;
  const counting = count(redis, partitions).catch(() => undefined);
  return (await within(countMsMax, counting)) ? counting : undefined;
}

async function count(redis: Redis, partitions: readonly number[]): Promise<number> {
  const holders = await Promise.all(partitions.map((partition) => redis.zrange(leaseHoldersKey(partition), '0', '-1')));
  const counts = await Promise.all(
    holders.flat().map((member) => {
      const { account, lane } = parseLeaseHolder(member);
      return redis.hlen(leasesKey(account, lane));
    }),
  );
  return counts.reduce((sum, leases) => sum + leases, 0);
}
