import { z } from 'zod';
import { leaseGraceMs, leaseLifeMs } from '../../shared/limits/lease-life.ts';
import { loadScript, type Redis } from '../../shared/redis/connections.ts';
import {
  countersKey,
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

/**
 * Expires all leases of an account in a lane that are past their time, and returns how many there were. Idempotent. Leases that expire
 * after `dueBy`, in milliseconds of Redis's clock, stay, because Redis may have been unavailable while this call was sent.
 */
export type EndLeases = (holder: LeaseHolder, dueBy: number) => Promise<number>;

export function createEndLeases(redis: Redis, { requestMs }: { requestMs: () => number }): EndLeases {
  const lua = loadLua(new URL('./end-leases.lua', import.meta.url));
  const call = loadScript(redis, { name: 'svcEndLeases', lua, numberOfKeys: 7 });
  return async ({ account, lane }, dueBy) => {
    const partition = partitionOf(account);
    const keys = [
      ...[countersKey(account), leasesKey(account, lane), leaseEndsKey(account, lane), lostRequestsKey(account)],
      ...[leaseHoldersKey(partition), outboxKey(partition), keyCountersKey(account)],
    ];
    const times = [requestMs() + leaseGraceMs.started[lane], dueBy, leaseLifeMs];
    let ended = 0;
    for (let latest = atMost; latest === atMost; ended += latest) {
      latest = z.int().parse(await call(keys, [account, leaseHolderOf({ account, lane }), atMost, ...times]));
    }
    return ended;
  };
}
