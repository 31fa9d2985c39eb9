import type { Redis } from 'ioredis';
import type { Lane } from '../../shared/lane.ts';
import type { EndLeases } from '../../shared/limits/end-leases.ts';
import { leaseGraceMs } from '../../shared/limits/lease-life.ts';
import { leaseHoldersKey, leasesKey, parseLeaseHolder } from '../../shared/redis-keys.ts';
import { within } from '../../shared/shutdown.ts';
import type { WorkerMetrics } from '../metrics.ts';
import { redisNow } from './redis-now.ts';

/** Accounts of a partition that are looked after at a time; of more than these the rest are next. */
const accountsAtOnce = 100;
/** Where accounts with batches stand as a rule, and others only after a clock was put back. */
const aheadAtOnce = 1_000;

type Parts = {
  redis: Redis;
  endLeases: EndLeases;
  timeouts: { requestMs: number };
  metrics: Pick<WorkerMetrics, 'leasesExpired'>;
  now?: () => Promise<number>;
};

/** No lease ends later than this after its request's deadline; one that does is of a clock that has since been put back. */
const aheadMs = (lane: Lane) => leaseGraceMs.started[lane] + 60_000;

/** Ends what nobody has ended by its time, in all accounts of a partition, so that nothing of theirs is held for longer. */
export function createTendLeases(parts: Parts): (partition: number) => Promise<void> {
  const { redis, endLeases, timeouts, metrics, now: timeOf = () => redisNow(redis) } = parts;

  return async function tendLeases(partition) {
    for (let accounts = accountsAtOnce; accounts === accountsAtOnce; ) {
      const now = await timeOf();
      const holders = leaseHoldersKey(partition);
      const aheadOf = (lane: Lane) => now + timeouts.requestMs + aheadMs(lane);
      const [past, notOfBatches, ahead] = await Promise.all([
        redis.zrangebyscore(holders, '-inf', now, 'LIMIT', 0, accountsAtOnce),
        redis.zrangebyscore(holders, `(${aheadOf('interactive')}`, aheadOf('batch'), 'LIMIT', 0, aheadAtOnce),
        redis.zrangebyscore(holders, `(${aheadOf('batch')}`, '+inf', 'LIMIT', 0, accountsAtOnce),
      ]);
      const interactive = notOfBatches.map(parseLeaseHolder).filter(({ lane }) => lane === 'interactive');
      const due = [...[...past, ...ahead].map(parseLeaseHolder), ...interactive];
      const ended = await Promise.all(due.map(endLeases));
      metrics.leasesExpired.inc(ended.reduce((sum, count) => sum + count, 0));
      accounts = past.length;
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
