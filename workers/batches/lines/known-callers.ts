import { LRUCache } from 'lru-cache';
import type { Caller } from '../../../shared/caller.ts';
import type { Account } from '../../../shared/store/accounts/account.ts';
import type { KeyScope } from '../../../shared/store/accounts/key.ts';

/** What the key of a batch allows its lines. */
export type LineScope = { [Name in 'endpoints' | 'models' | 'limits']: KeyScope[Name] | undefined };

const callersMax = 10_000;
/** As in the ingress. If Redis loses its last writes, a stale caller is used no longer than this. */
const keptMs = 60_000;

/** Callers as this worker last read them. Each is used only while Redis says that its version is current. */
export function createKnownCallers() {
  const callers = new LRUCache<string, Caller>({ max: callersMax, ttl: keptMs });
  const scopes = new WeakMap<Caller, ReadonlyMap<string, LineScope>>();
  return {
    find: (account: string): Caller | undefined => callers.get(account),
    /** `account` is the one that the caller was read from, undefined if it was never used. */
    keep(caller: Caller, account: Account | undefined): void {
      callers.set(caller.account, caller);
      const keys = account?.keys ?? [];
      scopes.set(caller, new Map(keys.map(({ id, endpoints, models, limits }) => [id, { endpoints, models, limits }])));
    },
    /**
     * What the key of a batch may do; undefined for one that the account does not have. A key that has ended keeps its scope for its
     * batches.
     */
    scopeOf: (caller: Caller, keyId: string): LineScope | undefined => scopes.get(caller)?.get(keyId),
  };
}

export type KnownCallers = ReturnType<typeof createKnownCallers>;
