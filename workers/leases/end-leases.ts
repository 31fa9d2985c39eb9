import { z } from 'zod';
import { leaseGraceMs, leaseLifeMs } from '../../shared/limits/lease-life.ts';
import { loadScript, type Redis } from '../../shared/redis/connections.ts';
import {
  countersKey,
  keptBytesKey,
  keyCountersKey,
  type LeaseHolder,
  leaseEndsKey,
  leaseHolderOf,
  leaseHoldersKey,
  leasesKey,
  lostRequestsKey,
  outboxKey,
  partitionOf,
} from '../../shared/redis/keys.ts';
import { loadLua } from '../../shared/redis/load-lua.ts';

/** Max leases expired by one call of the script, so that other commands do not wait long. */
const atMost = 50;
/** How many were expired, and the further keys whose counters are needed to expire the others. */
const answerSchema = z.tuple([z.int()], z.string());

/**
 * Expires all leases of an account in a lane that are past their time, and returns how many there were. Idempotent. Leases that expire
 * after `dueBy`, in milliseconds of Redis's clock, stay, because Redis may have been unavailable while this call was sent.
 */
export type EndLeases = (holder: LeaseHolder, dueBy: number) => Promise<number>;

export function createEndLeases(redis: Redis, { requestMs }: { requestMs: () => number }): EndLeases {
  const lua = loadLua(new URL('./end-leases.lua', import.meta.url));
  const call = loadScript(redis, { name: 'svcEndLeases', lua });
  return async ({ account, lane }, dueBy) => {
    const partition = partitionOf(account);
    const keys = [
      ...[countersKey(account), leasesKey(account, lane), leaseEndsKey(account, lane), lostRequestsKey(account)],
      ...[leaseHoldersKey(partition), outboxKey(partition), keptBytesKey(account)],
    ];
    const times = [requestMs() + leaseGraceMs.started[lane], dueBy, leaseLifeMs];
    const args = [account, leaseHolderOf({ account, lane }), atMost, ...times];
    let total = 0;
    for (let keyIds: string[] = []; ; ) {
      const counters = keyIds.map((keyId) => keyCountersKey(account, keyId));
      const [ended, ...missing] = answerSchema.parse(await call([...keys, ...counters], [...args, ...keyIds]));
      total += ended;
      if (ended < atMost && missing.length === 0) return total;
      keyIds = [...new Set(missing)];
    }
  };
}
