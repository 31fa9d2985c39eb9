import { LRUCache } from 'lru-cache';
import { within } from '../../shared/concurrency/shutdown.ts';
import { createSingleFlight } from '../../shared/concurrency/single-flight.ts';
import { ApiError, temporarilyUnavailable } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import { ifAvailable, type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { callerKey } from '../../shared/redis/keys.ts';
import {
  accountStatusOf,
  type Caller,
  callerOf,
  callerSchema,
  type GuestSecrets,
} from '../../shared/store/records/account.ts';
import type { AccountStore } from '../../shared/store/records/account-store.ts';
import { type Credential, invalidKey } from './authorization.ts';

const callersMax = 50_000;
const rereadMs = 60_000;
/** A known caller waits no longer than this for a store that does not answer. */
const knownWaitMs = 100;
const unknownMax = 10_000;
/** Limits repeated lookups of unknown keys in the store. A caller that another ingress shares meanwhile is still found. */
const unknownMs = 2_000;
const neverKnown = -1;
/**
 * Anyone can make up keys of the right form. However many such keys arrive at once, the reads for known callers queue behind at most this
 * many reads in the store.
 */
const firstReadsMax = 200;

type Deps = {
  store: Pick<AccountStore, 'findKeyOwner' | 'findAccount'>;
  sharedCallers: SharedCallers;
  /** Whether a guest key made with these secrets is still accepted. */
  guestSecretsInUse: (guest: GuestSecrets) => boolean;
  defaultPlan: () => string;
  clock?: { now(): number };
};
type ReadCaller = (credential: Credential) => Promise<Caller | undefined>;

/**
 * Finds the caller of a credential (contract.md#c16-caller-cache). Fails with `INVALID_KEY` for an unknown key, and with
 * `SERVICE_UNAVAILABLE` if the caller cannot be determined. An account that was never used has the default plan and version 0.
 */
export function createCallers(deps: Deps) {
  const { sharedCallers, clock = performance } = deps;
  const cached = { ttlResolution: 0, perf: clock };
  const callers = new LRUCache<string, Caller>({ ...cached, max: callersMax, ttl: rereadMs, noDeleteOnStaleGet: true });
  /** Unknown keys, each with the version of its last owner. */
  const unknown = new LRUCache<string, number>({ ...cached, max: unknownMax, ttl: unknownMs });
  const readStored = createReadStored(deps);
  const readings = createSingleFlight({ nameOf, fetch: read });
  const findings = createSingleFlight({ nameOf, fetch: findShared });
  const readFirst = limitAtOnce(readings.joinNext); // not `join`: an earlier read may miss a key that was created since

  /** A caller from the store can be kept at any time: it is used only while its version is the account's. */
  async function read(credential: Credential): Promise<Caller | undefined> {
    const caller = await readStored(credential);
    const name = nameOf(credential);
    if (caller === undefined) {
      unknown.set(name, callers.peek(name, { allowStale: true })?.version ?? neverKnown);
      callers.delete(name);
      return undefined;
    }
    const isNew = callers.get(name)?.version !== caller.version;
    if (isNew && 'hashes' in credential) void sharedCallers.put(name, caller);
    callers.set(name, caller);
    return caller;
  }

  /**
   * While the store is unavailable, a known caller is kept, and the store is not asked again for it for a minute (contract.md#r3-hot-path).
   */
  async function refresh(credential: Credential, known: Caller): Promise<Caller | undefined> {
    const reading = readings.join(credential).catch((error: unknown) => {
      if (!(error instanceof ApiError) || error.code !== 'SERVICE_UNAVAILABLE') throw error;
      callers.set(nameOf(credential), known);
      return known;
    });
    return (await within(knownWaitMs, reading)) ? reading : known;
  }

  async function findShared(credential: Credential): Promise<Caller | undefined> {
    const name = nameOf(credential);
    const found = callers.get(name);
    if (found !== undefined) return found;
    const shared = await sharedCallers.get(name);
    if ((unknown.get(name) ?? Number.NEGATIVE_INFINITY) >= (shared?.caller.version ?? neverKnown)) return undefined;
    if (shared === undefined) return readFirst(credential);
    callers.set(name, shared.caller, { start: clock.now() - shared.ageMs });
    return shared.ageMs < rereadMs ? shared.caller : refresh(credential, shared.caller);
  }

  return {
    /** Whether this ingress has the caller in memory, so that `find` needs no lookup. */
    knows: (credential: Credential): boolean => callers.peek(nameOf(credential), { allowStale: true }) !== undefined,
    /**
     * From memory, else from Redis, else from the store; undefined for an account that this ingress has not seen. The result may be
     * stale: it is valid only after Redis has confirmed that its version is the current one (admit.lua).
     */
    async find(credential: Credential): Promise<Caller | undefined> {
      const name = nameOf(credential);
      const fresh = callers.get(name);
      if (fresh !== undefined) return fresh;
      const known = callers.get(name, { allowStale: true });
      if (known !== undefined) return requireKnown(await refresh(credential, known));
      return 'hashes' in credential ? requireKnown(await findings.joinNext(credential)) : undefined;
    },
    /** From the store, by a read that begins after this call. */
    reread: async (credential: Credential): Promise<Caller> => requireKnown(await readings.joinNext(credential)),
  };
}

export type Callers = ReturnType<typeof createCallers>;

function createReadStored({ store, guestSecretsInUse, defaultPlan }: Deps): ReadCaller {
  return async function readStored(credential) {
    if ('account' in credential) {
      return callerOf(credential.account, await store.findAccount(credential.account), defaultPlan());
    }
    const owner = await store.findKeyOwner(credential.hashes);
    if (owner === undefined || (owner.guest !== undefined && !guestSecretsInUse(owner.guest))) return undefined;
    const { account, keyId, keyScope } = owner;
    return { account, keyId, ...accountStatusOf(owner), ...(keyScope && { keyScope }) };
  };
}

function limitAtOnce(read: ReadCaller): ReadCaller {
  let reading = 0;
  return async function readLimited(credential) {
    if (reading >= firstReadsMax)
      throw temporarilyUnavailable(new Error('too many keys are looked up for the first time'));
    reading++;
    try {
      return await read(credential);
    } finally {
      reading--;
    }
  };
}

function requireKnown(caller: Caller | undefined): Caller {
  if (caller === undefined) throw invalidKey();
  return caller;
}

/** For a key, its hash under the first pepper, whichever pepper it was minted under; no account's name looks like a hash. */
function nameOf(credential: Credential): string {
  return 'hashes' in credential ? (credential.hashes[0] ?? '') : credential.account;
}

const lifeMs = 3_600_000;

/** Callers of keys in Redis, as read from the store by any ingress: a new ingress does not have to read them all again. */
export function createSharedCallers({
  redis,
  secretsInUse,
  log,
}: {
  redis: Redis;
  /** Identifies the configured secrets; ingresses with different secrets must not share callers. */
  secretsInUse: string;
  log: Log;
}) {
  return {
    /**
     * `ageMs` is the time since it was read from the store. Fails with `SERVICE_UNAVAILABLE`, but in a cluster a node that does not answer
     * has no callers: the account of the key may be on another one.
     */
    async get(hash: string): Promise<{ caller: Caller; ageMs: number } | undefined> {
      const key = callerKey(secretsInUse, hash);
      const read = Promise.all([redis.get(key), redis.pttl(key)]);
      const [text, lifeLeftMs] = (await redisUnavailable(ifAvailable(redis, read))) ?? [null, 0];
      const caller = text === null ? undefined : parseCaller(text);
      return caller && { caller, ageMs: ageOf(lifeLeftMs) };
    },
    /** Never fails, and does not have to be awaited: a caller that is missing here is read from the store. */
    async put(hash: string, caller: Caller): Promise<void> {
      await redis
        .set(callerKey(secretsInUse, hash), JSON.stringify(caller), 'PX', lifeMs)
        .catch((error: unknown) => log.debug({ err: error }, 'a caller could not be shared'));
    },
  };
}

export type SharedCallers = ReturnType<typeof createSharedCallers>;

/** A value that cannot be read counts as missing. */
function parseCaller(text: string): Caller | undefined {
  try {
    return callerSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** After a clock is set back, the remaining life can exceed `lifeMs`: then the maximum age is assumed. */
function ageOf(lifeLeftMs: number): number {
  return lifeLeftMs >= 0 && lifeLeftMs <= lifeMs ? lifeMs - lifeLeftMs : lifeMs;
}
