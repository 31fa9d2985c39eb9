import { z } from 'zod';
import { type PauseKind, pauseKinds } from '../../shared/fleet/note-process.ts';
import { storedJson } from '../../shared/json/stored-values.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { sharesExpiryKey, sharesKey } from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

/**
 * What a worker uses and needs of a backend. `limit`: concurrent calls of the whole fleet; undefined if there is no limit, except the one
 * that the backend shows by being busy (contract.md#ms2-busy-and-loading). `wants`: jobs wait for it; `idle`: none waits; `stops`: this
 * worker takes no more jobs. `isAsked`: a client has called it in the last seconds. `isOfSeveralPools`: models of several pools have it, so
 * workers of one pool could keep it from those of another. `isPreferred`: requests may need this backend and no other.
 */
export type BackendUse = {
  backend: string;
  limit: number | undefined;
  inFlight: number;
  need: 'wants' | 'idle' | 'stops';
  isAsked: boolean;
  isOfSeveralPools: boolean;
  isPreferred: boolean;
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

export type RenewedShares = {
  pools: Map<string, PoolMembership>;
  shares: Map<string, Share>;
  /** Of backends that pause. */
  pauses: Map<string, Pause>;
  /** Calls of other workers in flight, as of their last renewals. */
  callsElsewhere: Map<string, number>;
};

/**
 * Renews all shares of a worker (decisions.md#shares-instead-of-a-lease-for-each-call). Idempotent: of calls with the same `number`, one
 * counts what is new. `new`: the worker has never renewed. `leaves`: it gives up its shares.
 */
export type RenewShares = (
  mode: 'new' | 'known' | 'leaves',
  renewal: { number: number; pools: readonly string[]; uses: readonly (BackendUse & BackendNews)[] },
) => Promise<RenewedShares>;

/** How long a share lasts after its last renewal. */
export const shareMs = 2_000;
const constants = {
  shareMs,
  gapMs: 1_000,
  askedForMs: 5_000,
  lifeMs: 172_800_000,
  growMs: 1_000,
  waitMsMax: 30_000,
  doubleAfterMs: 5_000,
  forgetMs: 60_000,
  pauseMsMax: 60_000,
  limitMax: 10_000,
};

const script = loadLua(new URL('./renew-shares.lua', import.meta.url), {
  keys: 'sharesKey sharesExpiryKey',
  args: 'worker mode number uses ...pools',
  constants,
});

const answerSchema = storedJson.pipe(
  z.object({
    pools: z.record(z.string(), z.object({ workers: z.int(), checksStalled: z.boolean() })),
    shares: z.record(
      z.string(),
      z.object({
        calls: z.int(),
        batchCalls: z.int(),
        elsewhere: z.int(),
        pause: z.object({ kind: z.enum(pauseKinds), leftMs: z.number() }).optional(),
      }),
    ),
  }),
);

/** `group`: the backend whose shares have their own keys; undefined if all backends have the same keys. */
export function createRenewShares(
  redis: Redis,
  { workerId, group }: { workerId: string; group?: string },
): RenewShares {
  const call = loadScript(redis, script);
  const keys = { sharesKey: sharesKey(group), sharesExpiryKey: sharesExpiryKey(group) };
  let latest: { answer: unknown; renewed: RenewedShares } | undefined;
  return async (mode, { number, pools, uses }) => {
    // Undefined fields are not in JSON.
    const asked = uses.map(
      ({ backend: name, limit = 0, inFlight, need, isAsked, isOfSeveralPools, isPreferred, busyCalls, pause }) => ({
        name,
        limit,
        batchMax: batchCallsMax(limit),
        inFlight,
        need,
        isAsked: isAsked || undefined,
        isOfSeveral: isOfSeveralPools || undefined,
        isPreferred: isPreferred || undefined,
        busyCalls: busyCalls || undefined,
        ...(pause && { pauseKind: pause.kind, pauseMs: Math.ceil(pause.leftMs) }),
      }),
    );
    const answer = await call({ ...keys, worker: workerId, mode, number, pools, uses: JSON.stringify(asked) });
    // While nothing changes, neither does the answer.
    if (latest === undefined || answer !== latest.answer) latest = { answer, renewed: readAnswer(answer) };
    return latest.renewed;
  };
}

/** The calls that lines of batches may use, so that a client's request finds room at once. */
export function batchCallsMax(limit: number): number {
  return limit === 1 ? 1 : limit - Math.max(1, Math.floor(limit / 8));
}

function readAnswer(answer: unknown): RenewedShares {
  const { pools, shares } = answerSchema.parse(answer);
  const renewed: RenewedShares = {
    pools: new Map(Object.entries(pools)),
    shares: new Map(),
    pauses: new Map(),
    callsElsewhere: new Map(),
  };
  for (const [backend, { calls, batchCalls, elsewhere, pause }] of Object.entries(shares)) {
    renewed.shares.set(backend, calls < 0 ? unlimited : { calls, batchCalls });
    renewed.callsElsewhere.set(backend, elsewhere);
    if (pause !== undefined) renewed.pauses.set(backend, pause);
  }
  return renewed;
}
