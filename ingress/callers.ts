import { LRUCache } from 'lru-cache';
import type { KeyOwner, Store } from '../shared/store/store.ts';
import { hashKey, isWellFormedKey } from './api-key.ts';
import { invalidKey } from './authorization.ts';
import type { Caller } from './request-state.ts';

/** Who a key belongs to; throws `INVALID_KEY`, or `SERVICE_UNAVAILABLE` where that cannot be known. */
export type FindCaller = (key: string) => Promise<Caller>;

const callersMax = 50_000;
const rereadMs = 60_000;

/**
 * Callers from memory, else from the store: many requests with one new key ask the store once, a caller is read again
 * after a minute, and one that is known is kept while the store is away. Each pepper is tried, the first one first.
 */
export function createCallers({ store, peppers }: { store: Store; peppers: readonly string[] }): FindCaller {
  const owners = new LRUCache<string, KeyOwner>({
    max: callersMax,
    ttl: rereadMs,
    // Not by the cache's own allowStaleOnFetchRejection: where nothing is cached it turns the failure into "not found".
    fetchMethod: async (hash, known) => {
      try {
        return await store.findKeyOwner(hash);
      } catch (error) {
        if (known !== undefined) return known;
        throw error;
      }
    },
  });

  return async function findCaller(key) {
    if (!isWellFormedKey(key)) throw invalidKey();
    for (const pepper of peppers) {
      const owner = await owners.fetch(hashKey(key, pepper));
      if (owner !== undefined) return { account: owner.account, plan: owner.plan, keyId: owner.keyId };
    }
    throw invalidKey();
  };
}
