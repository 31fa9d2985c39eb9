import type { Redis } from 'ioredis';
import { z } from 'zod';
import { loadScript } from '../redis.ts';
import {
  type LeaseHolder,
  leaseEndsKey,
  leaseHolderOf,
  leaseHoldersKey,
  leasesKey,
  lostRequestsKey,
  outboxKey,
  partitionOf,
  standingKey,
} from '../redis-keys.ts';
import { leaseGraceMs } from './lease-life.ts';
import { readLua } from './read-lua.ts';

/** What one call of the script may end, so that no other has to wait for long. */
const atMost = 50;

/** Ends an account's leases in a lane that are past their time, all of them, and says how many there were; idempotent. */
export type EndLeases = (holder: LeaseHolder) => Promise<number>;

export function createEndLeases(redis: Redis, { requestMs }: { requestMs: number }): EndLeases {
  const lua = readLua(new URL('./end-leases.lua', import.meta.url));
  const call = loadScript(redis, { name: 'svcEndLeases', lua, numberOfKeys: 6 });
  return async ({ account, lane }) => {
    const partition = partitionOf(account);
    const keys = [
      ...[standingKey(account), leasesKey(account, lane), leaseEndsKey(account, lane), lostRequestsKey(account)],
      ...[leaseHoldersKey(partition), outboxKey(partition)],
    ];
    const lifeMsMax = requestMs + leaseGraceMs.started[lane];
    let ended = 0;
    for (let latest = atMost; latest === atMost; ended += latest) {
      latest = z.int().parse(await call(keys, [account, leaseHolderOf({ account, lane }), atMost, lifeMsMax]));
    }
    return ended;
  };
}
