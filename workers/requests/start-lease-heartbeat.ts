import { z } from 'zod';
import { repeatWhile } from '../../shared/concurrency/repeat-while.ts';
import { leaseLifeMs, renewLeasesEveryMs } from '../../shared/limits/admit.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { leaseEndsKey, partitionOf } from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

const leasedSchema = z.object({ account: z.string(), requestId: z.string() });
type LeasedRequest = z.infer<typeof leasedSchema>;

/** Renews all leases together, with one call for each partition. If Redis is unavailable, they are renewed when it is back. */
export function startLeaseHeartbeat({
  renewLeases,
  queueMs,
  log,
  everyMs = renewLeasesEveryMs,
}: {
  renewLeases: RenewLeases;
  queueMs: () => number;
  log: Log;
  everyMs?: number;
}) {
  const held = new Set<LeasedRequest>();
  const renewing = repeatWhile({
    everyMs,
    work: () => renewLeases([...held], leaseLifeMs),
    isNeeded: () => held.size > 0,
    onFailure: (error) => log.warn({ err: error }, 'leases could not be renewed'),
  });

  return {
    /** Renews a lease that has just started, until the returned function is called. */
    hold({ account, requestId }: LeasedRequest): () => void {
      const lease = { account, requestId };
      held.add(lease);
      renewing.begin();
      return () => held.delete(lease);
    },
    /** Extends the leases of jobs that go back to their queue, where each may wait as long as a new one. Never fails. */
    async extendRequeued(jobs: readonly unknown[]): Promise<void> {
      const requests = jobs.flatMap((job) => leasedSchema.safeParse(job).data ?? []);
      await renewLeases(requests, queueMs() + leaseLifeMs).catch((error: unknown) =>
        log.warn({ err: error }, 'leases of requests that go back to their queue were not renewed'),
      );
    },
    [Symbol.dispose]: renewing[Symbol.dispose],
  };
}

/** Renews the leases of requests while this worker runs them. */
export type LeaseHeartbeat = ReturnType<typeof startLeaseHeartbeat>;

const script = loadLua(new URL('./renew-leases.lua', import.meta.url), {
  keys: '...leaseEndsKeys',
  args: 'lifeMs ...requests',
});

/** Extends started leases of requests to `lifeMs` from now; never shortens them. Leases that have ended stay ended. Idempotent. */
type RenewLeases = (requests: readonly LeasedRequest[], lifeMs: number) => Promise<void>;

/** Makes one call for each partition of these requests' accounts, with at most `atMost` requests in each. */
export function createRenewLeases(redis: Redis, { atMost = 500 }: { atMost?: number } = {}): RenewLeases {
  const call = loadScript(redis, script);

  async function renew(leased: readonly LeasedRequest[], lifeMs: number): Promise<void> {
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
