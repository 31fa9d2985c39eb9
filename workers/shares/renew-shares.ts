import { type PauseKind, pauseKinds } from '../../shared/fleet/process-load.ts';
import { loadScript, type Redis } from '../../shared/redis/connections.ts';
import { sharesExpiryKey, sharesKey } from '../../shared/redis/coordination-keys.ts';
import { loadLua } from '../../shared/redis/load-lua.ts';
import { intOf, wordsOf } from '../../shared/redis/read-answer.ts';

/**
 * What a worker uses and needs of a backend. `limit`: concurrent calls of the whole fleet; undefined if there is no limit, except the one
 * that the backend shows by being busy (contract.md#ms2-busy-and-loading). `wants`: jobs wait for it; `idle`: none waits; `stops`: this
 * worker takes no more jobs. `isAsked`: a client has called it in the last seconds. `isOfSeveralPools`: models of several pools have it, so
 * workers of one pool could keep it from those of another.
 */
export type BackendUse = {
  backend: string;
  limit: number | undefined;
  inFlight: number;
  need: 'wants' | 'idle' | 'stops';
  isAsked: boolean;
  isOfSeveralPools: boolean;
};

/**
 * What a worker has learned of a backend since its last renewal. `busyCalls`: how many calls of this worker were in flight when it was
 * busy, 0 if it was not; `pause`: for how long it is not called.
 */
export type BackendNews = { busyCalls: number; pause: Pause | undefined };

/**
 * Concurrent calls that a worker may make to a backend. A line of a batch may be called only while fewer than `batchCalls` calls are in
 * flight, of lines and requests together.
 */
export type Share = { calls: number; batchCalls: number };

export const noShare: Share = { calls: 0, batchCalls: 0 };
export const unlimited: Share = { calls: Number.POSITIVE_INFINITY, batchCalls: Number.POSITIVE_INFINITY };

export type Pause = { kind: PauseKind; leftMs: number };

/** `workers`: how many workers of the pool are alive. `checksStalled`: only this one looks for stalled jobs. */
export type PoolMembership = { workers: number; checksStalled: boolean };

export type Renewed = {
  pools: Map<string, PoolMembership>;
  shares: Map<string, Share>;
  /** Of backends that pause. */
  pauses: Map<string, Pause>;
};

/**
 * Renews all shares of a worker (decisions.md#shares-instead-of-a-lease-for-each-call). Idempotent: of calls with the same `number`, one
 * counts what is new. `new`: the worker has never renewed. `leaves`: it gives up its shares.
 */
export type RenewShares = (
  mode: 'new' | 'known' | 'leaves',
  renewal: { number: number; pools: readonly string[]; uses: readonly (BackendUse & BackendNews)[] },
) => Promise<Renewed>;

/** How long a share lasts after its last renewal. */
export const shareMs = 2_000;
const constants = {
  ...{ shareMs, gapMs: 1_000, askedForMs: 5_000, lifeMs: 172_800_000 },
  ...{ growMs: 1_000, waitMsMax: 30_000, doubleAfterMs: 5_000, forgetMs: 60_000, pauseMsMax: 60_000, limitMax: 10_000 },
};

/** `group`: the backend whose shares have their own keys; undefined if all backends have the same keys. */
export function createRenewShares(
  redis: Redis,
  { workerId, group }: { workerId: string; group?: string },
): RenewShares {
  const lua = loadLua(new URL('./renew-shares.lua', import.meta.url), constants);
  const call = loadScript(redis, { name: 'svcRenewShares', lua, numberOfKeys: 2 });
  return async (mode, { number, pools, uses }) => {
    const ofBackends = uses.flatMap(({ backend, limit = 0, inFlight, need, isAsked, isOfSeveralPools, ...busy }) => {
      const flags = [isAsked ? 1 : 0, isOfSeveralPools ? 1 : 0];
      const pause = [busy.pause?.kind ?? '-', Math.ceil(busy.pause?.leftMs ?? 0)];
      return [backend, limit, batchCallsMax(limit), inFlight, need, ...flags, busy.busyCalls, ...pause];
    });
    const answer = await call(
      [sharesKey(group), sharesExpiryKey(group)],
      [workerId, mode, number, pools.length, ...pools, ...ofBackends],
    );
    return mode === 'leaves'
      ? { pools: new Map(), shares: new Map(), pauses: new Map() }
      : readAnswer(answer, { pools, uses });
  };
}

/** The calls that lines of batches may use, so that a client's request finds room at once. */
export function batchCallsMax(limit: number): number {
  return limit === 1 ? 1 : limit - Math.max(1, Math.floor(limit / 8));
}

function readAnswer(answer: unknown, { pools, uses }: Omit<Parameters<RenewShares>[1], 'number'>): Renewed {
  const words = wordsOf(answer);
  let read = 0;
  const next = () => intOf(words[read++]);
  const memberships = new Map(pools.map((pool) => [pool, { workers: next(), checksStalled: next() === 1 }]));
  const shares = new Map<string, Share>();
  const pauses = new Map<string, Pause>();
  for (const { backend } of uses) {
    const share = { calls: next(), batchCalls: next() };
    shares.set(backend, share.calls < 0 ? unlimited : share);
    const kind = pauseKinds.find((each) => each === words[read]);
    read++;
    const leftMs = next();
    if (kind !== undefined && leftMs > 0) pauses.set(backend, { kind, leftMs });
  }
  return { pools: memberships, shares, pauses };
}
