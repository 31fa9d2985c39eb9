import type { Redis } from 'ioredis';
import type { Lane } from '../../shared/lane.ts';
import { leaseGraceMs, leaseLifeMs } from '../../shared/limits/lease-life.ts';
import { within } from '../../shared/process/shutdown.ts';
import { leaseHoldersKey, leasesKey, parseLeaseHolder } from '../../shared/redis/keys.ts';
import { redisNow } from '../redis-now.ts';
import type { EndLeases } from './end-leases.ts';
import type { LeaseMetrics } from './lease-metrics.ts';

/** Accounts of a partition that are looked after at a time; of more than these the rest are next. */
const accountsAtOnce = 100;
/**
 * Longer than between two looks of a worker that looks after any partition at all. Where more time has passed by Redis's clock, Redis
 * was away, or its clock has leapt: then nothing ends until those who still have their requests must have renewed them.
 */
const awayAfterMs = 30_000;
/** Where accounts with batches stand as a rule, and others only after a clock was put back. */
const aheadAtOnce = 1_000;

/** No lease ends later than this after its request's deadline; one that does is of a clock that has since been put back. */
const aheadMs = (lane: Lane) => leaseGraceMs.started[lane] + 60_000;

/** `ended`: how many leases; `nextMs`: until the next one of the partition may end, undefined where there is none. */
export type Expired = { ended: number; nextMs: number | undefined };
export type ExpireLeases = (partition: number) => Promise<Expired>;

/** Ends what nobody has ended by its time, in all accounts of a partition, so that nothing of theirs is held for longer. */
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

  /** How long no lease may end from this time of Redis's clock on, in milliseconds. */
  function quietMs(now: number): number {
    if (seenAt !== undefined && now - seenAt > awayAfterMs) quietUntil = now + leaseLifeMs;
    if (quietUntil > now + leaseLifeMs) quietUntil = 0; // the clock was put back
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
