import { loadScript, type Redis } from '../../shared/redis/connections.ts';
import { sharesExpiryKey, sharesKey } from '../../shared/redis/coordination-keys.ts';
import { loadLua } from '../../shared/redis/load-lua.ts';
import { intOf, wordsOf } from '../../shared/redis/read-answer.ts';

/**
 * What a worker uses and needs of a backend. `limit`: concurrent calls of the whole fleet. `wants`: jobs wait for it; `idle`: none
 * waits; `stops`: this worker takes no more jobs. `isAsked`: a client has called it in the last seconds. `isOfSeveralPools`: models of
 * several pools have it, so workers of one pool could keep it from those of another.
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
 * Concurrent calls that a worker may make to a backend. A line of a batch may be called only while fewer than `batchCalls` calls are in
 * flight, of lines and requests together.
 */
export type Share = { calls: number; batchCalls: number };

export const noShare: Share = { calls: 0, batchCalls: 0 };

/** `workers`: how many workers of the pool are alive. `checksStalled`: only this one looks for stalled jobs. */
export type PoolMembership = { workers: number; checksStalled: boolean };

export type Renewed = { pools: Map<string, PoolMembership>; shares: Map<string, Share> };

/**
 * Renews all shares of a worker (decisions.md#shares-instead-of-a-lease-for-each-call). Idempotent. `new`: the worker has never renewed.
 * `leaves`: it gives up its shares.
 */
export type RenewShares = (
  mode: 'new' | 'known' | 'leaves',
  renewal: { pools: readonly string[]; uses: readonly BackendUse[] },
) => Promise<Renewed>;

/** How long a share lasts after its last renewal. */
export const shareMs = 2_000;
const constants = { shareMs, gapMs: 1_000, askedForMs: 5_000, lifeMs: 172_800_000 };

/** `group`: the backend whose shares have their own keys; undefined if all backends have the same keys. */
export function createRenewShares(
  redis: Redis,
  { workerId, group }: { workerId: string; group?: string },
): RenewShares {
  const lua = loadLua(new URL('./renew-shares.lua', import.meta.url), constants);
  const call = loadScript(redis, { name: 'svcRenewShares', lua, numberOfKeys: 2 });
  return async (mode, { pools, uses }) => {
    const ofBackends = uses.flatMap(({ backend, limit, inFlight, need, isAsked, isOfSeveralPools }) => {
      const flags = [isAsked ? 1 : 0, isOfSeveralPools ? 1 : 0];
      return [backend, limit, batchCallsMax(limit), inFlight, need, ...flags];
    });
    const answer = await call(
      [sharesKey(group), sharesExpiryKey(group)],
      [workerId, mode, pools.length, ...pools, ...ofBackends],
    );
    return mode === 'leaves' ? { pools: new Map(), shares: new Map() } : readAnswer(answer, { pools, uses });
  };
}

/** The calls that lines of batches may use, so that a client's request finds room at once. */
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
