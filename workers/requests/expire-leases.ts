import { Counter, type Registry } from 'prom-client';
import { z } from 'zod';
import { within } from '../../shared/concurrency/shutdown.ts';
import { createSingleFlight } from '../../shared/concurrency/single-flight.ts';
import { storedJson } from '../../shared/json/stored-values.ts';
import { leaseGraceMs, leaseLifeMs } from '../../shared/limits/admit.ts';
import { observeGauge } from '../../shared/process/metrics.ts';
import { ifAvailable, nodeOf, type Redis, redisNow } from '../../shared/redis/connections.ts';
import {
  keptBytesKey,
  keyCountersKey,
  type Lane,
  type LeaseHolder,
  leaseHolderOf,
  leaseHoldersKey,
  leaseKeysOf,
  leasesKey,
  parseLeaseHolder,
  partitionOf,
} from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

/** Accounts of a partition that are checked at a time. If there are more, the rest follow. */
const accountsAtOnce = 100;
/**
 * Longer than the time between two checks of a worker that holds any partition. If more time has passed by Redis's clock, Redis was
 * unavailable or its clock has jumped. Then nothing expires until every worker that still has its requests must have renewed them. In a
 * cluster, this applies also to the first look of a worker and to a partition on another node: its old node may have been unavailable
 * (contract.md#n8-expired-leases).
 */
const awayAfterMs = 30_000;
/** Accounts whose next lease ends this far ahead usually have batches. Others are there only after a clock was set back. */
const aheadAtOnce = 1_000;

/** No lease expires later than this after its request's deadline, unless the clock has since been set back. */
const aheadMs = (lane: Lane) => leaseGraceMs.started[lane] + 60_000;

/** `node`: empty without a cluster. Times are in milliseconds of Redis's clock. */
type Look = { node: string; seenAt: number; quietUntil: number };

/** `ended`: how many leases. `nextMs`: time until the next one of the partition may expire; undefined if there is none. */
type Expiry = { ended: number; nextMs: number | undefined };
export type ExpireLeases = (partition: number) => Promise<Expiry>;

/** Expires the leases that are past their time, in all accounts of a partition. */
export function createExpireLeases(deps: {
  redis: Redis;
  endLeases: EndLeases;
  requestMs: () => number;
  metrics: Pick<LeaseMetrics, 'leasesExpired'>;
  now?: (partition: number) => Promise<number>;
}): ExpireLeases {
  const { redis, endLeases, requestMs, metrics } = deps;
  // Partitions that are checked together share a time. One that is a little old only expires a lease later.
  const times = createSingleFlight({
    nameOf: (partition: number) => (redis.isCluster ? String(partition) : ''),
    fetch: (partition) => redisNow(redis, leaseHoldersKey(partition)),
  });
  const { now: timeOf = times.join } = deps;
  /** The last look at each partition of a cluster, where some can be unavailable while others are not. Otherwise one for all. */
  const looks = new Map<number, Look>();

  /** How long no lease of this partition may expire from this time of Redis's clock on, in milliseconds. */
  function quietMs(partition: number, now: number): number {
    const node = nodeOf(redis, leaseHoldersKey(partition));
    const key = redis.isCluster ? partition : 0;
    const last = looks.get(key);
    const wasAway = last === undefined ? redis.isCluster : last.node !== node || now - last.seenAt > awayAfterMs;
    let quietUntil = wasAway ? now + leaseLifeMs : (last?.quietUntil ?? 0);
    if (quietUntil > now + leaseLifeMs) quietUntil = 0; // the clock was set back
    looks.set(key, { node, seenAt: now, quietUntil });
    return Math.max(0, quietUntil - now);
  }

  return async function expireLeases(partition) {
    const holders = leaseHoldersKey(partition);
    for (let ended = 0; ; ) {
      const [[first, firstEnd], now] = await Promise.all([
        redis.zrange(holders, '0', '0', 'WITHSCORES'),
        timeOf(partition),
      ]);
      const untilMs = quietMs(partition, now);
      if (first === undefined) return { ended, nextMs: undefined };
      if (untilMs > 0) return { ended, nextMs: untilMs };
      const aheadOf = (lane: Lane) => now + requestMs() + aheadMs(lane);
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
  const holdersOf = (partition: number) => ifAvailable(redis, redis.zrange(leaseHoldersKey(partition), '0', '-1'));
  const holders = (await Promise.all(partitions.map(holdersOf))).map((members) => members ?? []);
  const counts = await Promise.all(
    holders.flat().map((member) => {
      const { account, lane } = parseLeaseHolder(member);
      return redis.hlen(leasesKey(account, lane));
    }),
  );
  return counts.reduce((sum, leases) => sum + leases, 0);
}

export type LeaseMetrics = ReturnType<typeof createLeaseMetrics>;

export function createLeaseMetrics(registry: Registry) {
  return {
    leasesExpired: new Counter({
      name: 'svc_leases_expired_total',
      help: 'Leases that expired without being ended or renewed',
      registers: [registry],
    }),
    /** `count` is called at each scrape; undefined while Redis does not answer. */
    observeLeases(count: () => Promise<number | undefined>): void {
      observeGauge(registry, {
        name: 'svc_leases_held',
        help: 'Requests that hold a lease in the partitions of this worker. The sum over all workers is the total',
        read: count,
      });
    },
  };
}

const leaseKeys = 'countersKey leasesKey leaseEndsKey lostRequestsKey outboxKey';
const script = loadLua(new URL('./end-leases.lua', import.meta.url), {
  keys: `${leaseKeys} leaseHoldersKey keptBytesKey ...keyCountersKeys`,
  args: 'account leaseHolder atMost lifeMsMax dueBy lookAgainMs ...keyIds',
});

/** Max leases expired by one call of the script, so that other commands do not wait long. */
const atMost = 50;
/** How many were expired, and the further keys whose counters are needed to expire the others. */
const answerSchema = storedJson.pipe(z.object({ ended: z.int(), missing: z.array(z.string()).default([]) }));

/**
 * Expires all leases of an account in a lane that are past their time, and returns how many there were. Idempotent. Leases that expire
 * after `dueBy`, in milliseconds of Redis's clock, stay, because Redis may have been unavailable while this call was sent.
 */
type EndLeases = (holder: LeaseHolder, dueBy: number) => Promise<number>;

export function createEndLeases(redis: Redis, { requestMs }: { requestMs: () => number }): EndLeases {
  const call = loadScript(redis, script);
  return async ({ account, lane }, dueBy) => {
    const given = {
      ...leaseKeysOf(account, lane),
      leaseHoldersKey: leaseHoldersKey(partitionOf(account)),
      keptBytesKey: keptBytesKey(account),
      account,
      leaseHolder: leaseHolderOf({ account, lane }),
      atMost,
      dueBy,
      lifeMsMax: requestMs() + leaseGraceMs.started[lane],
      lookAgainMs: leaseLifeMs,
    };
    let total = 0;
    for (let keyIds: string[] = []; ; ) {
      const keyCountersKeys = keyIds.map((keyId) => keyCountersKey(account, keyId));
      const { ended, missing } = answerSchema.parse(await call({ ...given, keyCountersKeys, keyIds }));
      total += ended;
      if (ended < atMost && missing.length === 0) return total;
      keyIds = [...new Set(missing)];
    }
  };
}
