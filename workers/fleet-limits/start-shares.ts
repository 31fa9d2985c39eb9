import type { Redis } from '../../shared/redis/connections.ts';
import { createRenewShares } from './renew-shares.ts';
import { type Shares, startShareRenewal } from './start-share-renewal.ts';

type Options = Omit<Parameters<typeof startShareRenewal>[0], 'renewShares'> & { redis: Redis; workerId: string };

/**
 * Starts the renewal of all shares, with one call. In a cluster, each backend has its own keys and is renewed alone: if a node is
 * unavailable, only the backends whose shares it has cannot be called (decisions.md#shares-in-a-cluster).
 */
export function startShares({ redis, workerId, ...deps }: Options): Shares {
  const renewShares = createRenewShares(redis, { workerId });
  if (!redis.isCluster) return startShareRenewal({ ...deps, renewShares });
  const ofPools = startShareRenewal({ ...deps, renewShares, uses: () => [], onRenewed: onPoolsRenewed });
  const ofBackends = new Map<string, Shares>();
  const leaving = new Map<string, PromiseLike<void>>();
  followUses();

  function onPoolsRenewed(): void {
    followUses();
    deps.onRenewed(new Map());
  }

  /**
   * Backends come and go with the plan file. The share of one that comes back is renewed only after the earlier one was given up: otherwise
   * giving it up would end the new one.
   */
  function followUses(): void {
    const names = new Set(deps.uses().map(({ backend }) => backend));
    for (const name of names) {
      if (!ofBackends.has(name) && !leaving.has(name)) ofBackends.set(name, startFor(name));
    }
    for (const [name, shares] of ofBackends) {
      if (names.has(name)) continue;
      ofBackends.delete(name);
      leaving.set(
        name,
        shares[Symbol.asyncDispose]().then(() => void leaving.delete(name)),
      );
    }
  }

  function startFor(name: string): Shares {
    const uses = () => deps.uses().filter(({ backend }) => backend === name);
    return startShareRenewal({ ...deps, renewShares: createRenewShares(redis, { workerId, group: name }), uses });
  }

  return {
    renewed: Promise.all([ofPools, ...ofBackends.values()].map(({ renewed }) => renewed)).then(() => {}),
    shareOf: (backend, unknown) => ofBackends.get(backend)?.shareOf(backend, unknown) ?? unknown,
    renewingShareOf: (backend) => ofBackends.get(backend)?.renewingShareOf(backend),
    callsElsewhere: (backend) => ofBackends.get(backend)?.callsElsewhere(backend) ?? 0,
    areValid: (backend) => ofBackends.get(backend)?.areValid(backend) ?? false,
    renewSoon(backends) {
      for (const backend of backends) ofBackends.get(backend)?.renewSoon([backend]);
    },
    renewQuickly(backends) {
      for (const backend of backends) ofBackends.get(backend)?.renewQuickly([backend]);
    },
    membershipOf: ofPools.membershipOf,
    async [Symbol.asyncDispose]() {
      await Promise.all([ofPools, ...ofBackends.values()].map((shares) => shares[Symbol.asyncDispose]()));
      await Promise.all(leaving.values());
    },
  };
}
