import { z } from 'zod';
import { leaseGraceMs, leaseLifeMs } from '../../shared/limits/lease-life.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import {
  keptBytesKey,
  keyCountersKey,
  type LeaseHolder,
  leaseHolderOf,
  leaseHoldersKey,
  leaseKeysOf,
  partitionOf,
} from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';
import { storedJson } from '../../shared/stored-values.ts';

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
export type EndLeases = (holder: LeaseHolder, dueBy: number) => Promise<number>;

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
