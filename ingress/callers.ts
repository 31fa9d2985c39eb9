import { LRUCache } from 'lru-cache';
import { within } from '../shared/shutdown.ts';
import type { KeyOwner, Store } from '../shared/store/store.ts';
import { hashKey, isWellFormedKey } from './api-key.ts';
import { invalidKey } from './authorization.ts';
import type { Caller } from './request-state.ts';

/** Who a key belongs to; throws `INVALID_KEY`, or `SERVICE_UNAVAILABLE` where that cannot be known. */
export type FindCaller = (key: string) => Promise<Caller>;

type Parts = { store: Pick<Store, 'findKeyOwner'>; peppers: readonly string[]; clock?: { now(): number } };

const callersMax = 50_000;
const rereadMs = 60_000;
/** A store that does not answer holds up a caller that is known no longer than this. */
const knownWaitMs = 100;

/**
 * Callers from memory, else from the store: many requests with one new key ask the store once, a caller is read again
 * after a minute, and one that is known is kept while the store is away. Each pepper is tried, the first one first.
 */
export function createCallers({ store, peppers, clock = performance }: Parts): FindCaller {
  const owners = new LRUCache<string, KeyOwner>({
    max: callersMax,
    ttl: rereadMs,
    ttlResolution: 0,
    noDeleteOnStaleGet: true,
    perf: clock,
  });
  const readings = new Map<string, Promise<KeyOwner | undefined>>();

  /** What the store says goes; where it says nothing, what is known is kept for another minute. */
  async function read(hash: string, known: KeyOwner | undefined): Promise<KeyOwner | undefined> {
    try {
      const owner = await store.findKeyOwner(hash);
      if (owner === undefined) owners.delete(hash);
      else owners.set(hash, owner);
      return owner;
    } catch (error) {
      if (known === undefined) throw error;
      owners.set(hash, known);
      return known;
    }
  }

  function readOnce(hash: string, known: KeyOwner | undefined): Promise<KeyOwner | undefined> {
    const underWay = readings.get(hash);
    if (underWay !== undefined) return underWay;
    const reading = read(hash, known).finally(() => readings.delete(hash));
    readings.set(hash, reading);
    return reading;
  }

  async function ownerOf(hash: string): Promise<KeyOwner | undefined> {
    const fresh = owners.get(hash);
    if (fresh !== undefined) return fresh;
    const known = owners.get(hash, { allowStale: true });
    const reading = readOnce(hash, known);
    return known === undefined || (await within(knownWaitMs, reading)) ? reading : known;
  }

  return async function findCaller(key) {
    if (!isWellFormedKey(key)) throw invalidKey();
    for (const pepper of peppers) {
      const owner = await ownerOf(hashKey(key, pepper));
      if (owner !== undefined) return { account: owner.account, plan: owner.plan, keyId: owner.keyId };
    }
    throw invalidKey();
  };
}
