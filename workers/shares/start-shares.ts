import type { Redis } from '../../shared/redis/connections.ts';
import { createRenewShares, noShare } from './renew-shares.ts';
import { type Shares, startShareRenewal } from './start-share-renewal.ts';

type Options = Omit<Parameters<typeof startShareRenewal>[0], 'renewShares'> & { redis: Redis; workerId: string };

/**
 * Starts the renewal of all shares, with one call. In a cluster, each backend has its own keys and is renewed alone: if a node is
 * unavailable, only the backends whose shares it has cannot be called (decisions.md#shares-in-a-cluster).
 */
export function startShares({ redis, workerId, ...deps }: Options): Shares {
  const renewShares = createRenewShares(redis, { workerId });
  if (!redis.isCluster) return startShareRenewal({ ...deps, renewShares });
  const ofPools = startShareRenewal({ ...deps, renewShares, uses: () => [] });
  const names = deps.uses().map(({ backend }) => backend);
  const ofBackends = new Map(
    names.map((name) => {
      const uses = () => deps.uses().filter(({ backend }) => backend === name);
      return [
        name,
        startShareRenewal({ ...deps, renewShares: createRenewShares(redis, { workerId, group: name }), uses }),
      ];
    }),
  );
  const all = [ofPools, ...ofBackends.values()];
  return {
    renewed: Promise.all(all.map(({ renewed }) => renewed)).then(() => {}),
    shareOf: (backend) => ofBackends.get(backend)?.shareOf(backend) ?? noShare,
    areValid: (backend) => ofBackends.get(backend)?.areValid(backend) ?? false,
    renewSoon(backends) {
      for (const backend of backends) ofBackends.get(backend)?.renewSoon([backend]);
    },
    membershipOf: ofPools.membershipOf,
    async [Symbol.asyncDispose]() {
      await Promise.all(all.map((shares) => shares[Symbol.asyncDispose]()));
    },
  };
}
