import { LRUCache } from 'lru-cache';
import { toApiError } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import { within } from '../../shared/process/shutdown.ts';
import type { NameStore } from '../../shared/store/accounts/account-store.ts';

/** Keeps the display names that sign-in tokens have, for operators to read (contract.md#si1-sign-in-by-any-provider). */
export interface DisplayNames {
  /**
   * Keeps the name of an account. The store is asked only if this ingress has not kept the same name recently, or after a change of the
   * account, which may have created it. Never fails, and ends within a second.
   */
  keep(account: string, name: string, request: { isChange: boolean }): Promise<void>;
}

const accountsMax = 10_000;
const keptMs = 600_000;

export function createDisplayNames({
  names,
  log,
  waitMs = 1_000,
}: {
  names: Pick<NameStore, 'keepName'>;
  log: Pick<Log, 'debug'>;
  waitMs?: number;
}): DisplayNames {
  const kept = new LRUCache<string, string>({ max: accountsMax, ttl: keptMs });
  return {
    async keep(id, name, { isChange }) {
      if (!isChange && kept.get(id) === name) return;
      kept.set(id, name);
      const keeping = names.keepName({ id, name }).catch((error: unknown) => {
        kept.delete(id);
        log.debug({ code: toApiError(error).code }, 'a display name was not kept; trying again at a later request');
      });
      await within(waitMs, keeping);
    },
  };
}
