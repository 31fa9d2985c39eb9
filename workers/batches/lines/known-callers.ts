import { LRUCache } from 'lru-cache';
import type { Caller } from '../../../shared/caller.ts';

/** Callers as this worker last read them. Each is used only while Redis says that its version is current. */
export interface KnownCallers {
  find(account: string): Caller | undefined;
  keep(caller: Caller): void;
}

const callersMax = 10_000;
/** As in the ingress. If Redis loses its last writes, a stale caller is used no longer than this. */
const keptMs = 60_000;

export function createKnownCallers(): KnownCallers {
  const callers = new LRUCache<string, Caller>({ max: callersMax, ttl: keptMs });
  return {
    find: (account) => callers.get(account),
    keep(caller) {
      callers.set(caller.account, caller);
    },
  };
}
