import type { Redis } from 'ioredis';
import { loadScript } from '../../shared/redis/connections.ts';
import { sharesExpiryKey, sharesKey } from '../../shared/redis/keys.ts';
import { loadLua } from '../../shared/redis/load-lua.ts';
import { intOf, wordsOf } from '../../shared/redis/read-answer.ts';

/**
 * What a worker has of a backend, and needs. `limit`: calls at once of the whole fleet. `wants`: jobs wait for it; `idle`: none
 * does; `stops`: this worker takes no more. `isAsked`: a client has asked it in the last seconds. `isOfSeveralPools`: models of
 * several pools have it, so that workers of one pool can keep it from those of another.
 */
export type BackendUse = {
  backend: string;
  limit: number;
  inFlight: number;
  need: 'wants' | 'idle' | 'stops';
  isAsked: boolean;
  isOfSeveralPools: boolean;
};

/**
 * Calls at once that a worker may have of a backend. A line of a batch may be called only while fewer than `batchCalls` are in
 * flight, of lines and others.
 */
export type Share = { calls: number; batchCalls: number };

/** `workers` of the pool that are alive; `checksStalled`: this one looks for stalled jobs, and no other does. */
export type PoolMembership = { workers: number; checksStalled: boolean };

export type Renewed = { pools: Map<string, PoolMembership>; shares: Map<string, Share> };

/**
 * Renews all shares of a worker; the same call twice is the same as once. `new`: it has never renewed; `leaves`: it gives up
 * what it has.
 */
export type RenewShares = (
  mode: 'new' | 'known' | 'leaves',
  renewal: { pools: readonly string[]; uses: readonly BackendUse[] },
) => Promise<Renewed>;

/** How long a share lasts after its last renewal. */
export const shareMs = 2_000;
const constants = { shareMs, gapMs: 1_000, askedForMs: 5_000, lifeMs: 172_800_000 };

export function createRenewShares(redis: Redis, { workerId }: { workerId: string }): RenewShares {
  const lua = loadLua(new URL('./renew-shares.lua', import.meta.url), constants);
  const call = loadScript(redis, { name: 'svcRenewShares', lua, numberOfKeys: 2 });
  return async (mode, { pools, uses }) => {
    const ofBackends = uses.flatMap(({ backend, limit, inFlight, need, isAsked, isOfSeveralPools }) => {
      const flags = [isAsked ? 1 : 0, isOfSeveralPools ? 1 : 0];
      return [backend, limit, batchCallsMax(limit), inFlight, need, ...flags];
    });
    const answer = await call([sharesKey, sharesExpiryKey], [workerId, mode, pools.length, ...pools, ...ofBackends]);
    return mode === 'leaves' ? { pools: new Map(), shares: new Map() } : readAnswer(answer, { pools, uses });
  };
}

/** What lines of batches may have, so that a client that comes finds room at once. */
export function batchCallsMax(limit: number): number {
  return limit === 1 ? 1 : limit - Math.max(1, Math.floor(limit / 8));
}

function readAnswer(answer: unknown, { pools, uses }: Parameters<RenewShares>[1]): Renewed {
  const words = wordsOf(answer);
  let read = 0;
  const next = () => intOf(words[read++]);
  return {
    pools: new Map(pools.map((pool) => [pool, { workers: next(), checksStalled: next() === 1 }])),
    shares: new Map(uses.map(({ backend }) => [backend, { calls: next(), batchCalls: next() }])),
  };
}
