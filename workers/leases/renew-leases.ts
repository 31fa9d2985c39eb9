import type { Redis } from '../../shared/redis/connections.ts';
import { leaseEndsKey, partitionOf } from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

const script = loadLua(new URL('./renew-leases.lua', import.meta.url), {
  keys: '...leaseEndsKeys',
  args: 'lifeMs ...requests',
});

type Leased = { account: string; requestId: string };

/** Extends started leases of requests to `lifeMs` from now; never shortens them. Leases that have ended stay ended. Idempotent. */
export type RenewLeases = (requests: readonly Leased[], lifeMs: number) => Promise<void>;

/** Makes one call for each partition of these requests' accounts, with at most `atMost` requests in each. */
export function createRenewLeases(redis: Redis, { atMost = 500 }: { atMost?: number } = {}): RenewLeases {
  const call = loadScript(redis, script);

  async function renew(leased: readonly Leased[], lifeMs: number): Promise<void> {
    const leaseEndsKeys = leased.map(({ account }) => leaseEndsKey(account));
    await call({ leaseEndsKeys, lifeMs, requests: leased.map(({ requestId }) => requestId) });
  }

  return async (requests, lifeMs) => {
    const partitions = [...Map.groupBy(requests, ({ account }) => partitionOf(account)).values()];
    const calls = partitions.flatMap((own) =>
      Array.from({ length: Math.ceil(own.length / atMost) }, (_, index) =>
        renew(own.slice(index * atMost, (index + 1) * atMost), lifeMs),
      ),
    );
    await Promise.all(calls);
  };
}
