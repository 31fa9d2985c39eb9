import type { Redis } from 'ioredis';
import { z } from 'zod';
import { leaseGraceMs, leaseLifeMs } from '../../shared/limits/lease-life.ts';
import { loadScript } from '../../shared/redis/connections.ts';
import {
  countersKey,
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

/** What one call of the script may end, so that no other has to wait for long. */
const atMost = 50;

/**
 * Ends an account's leases in a lane that are past their time, all of them, and says how many there were; idempotent. Leases that
 * were to end after `dueBy`, milliseconds of Redis's clock, stay: while this call is on its way, Redis may be away.
 */
export type EndLeases = (holder: LeaseHolder, dueBy: number) => Promise<number>;

export function createEndLeases(redis: Redis, { requestMs }: { requestMs: number }): EndLeases {
  const lua = loadLua(new URL('./end-leases.lua', import.meta.url));
  const call = loadScript(redis, { name: 'svcEndLeases', lua, numberOfKeys: 6 });
  return async ({ account, lane }, dueBy) => {
    const partition = partitionOf(account);
    const keys = [
      ...[countersKey(account), leasesKey(account, lane), leaseEndsKey(account, lane), lostRequestsKey(account)],
      ...[leaseHoldersKey(partition), outboxKey(partition)],
    ];
    const times = [requestMs + leaseGraceMs.started[lane], dueBy, leaseLifeMs];
    let ended = 0;
    for (let latest = atMost; latest === atMost; ended += latest) {
      latest = z.int().parse(await call(keys, [account, leaseHolderOf({ account, lane }), atMost, ...times]));
    }
    return ended;
  };
}
