import { LRUCache } from 'lru-cache';
import type { Caller } from '../../../shared/caller.ts';

/** Accounts as this worker has last read them; each counts only while Redis says that its version is the present one. */
export interface KnownCallers {
  find(account: string): Caller | undefined;
  keep(caller: Caller): void;
}

const callersMax = 10_000;
/** As at the ingress: should Redis lose its last writes, what is kept here lives no longer than this. */
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
