import { LRUCache } from 'lru-cache';
import { within } from '../../shared/concurrency/shutdown.ts';
import { toApiError } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import type { NameStore } from '../../shared/store/records/account-store.ts';

const accountsMax = 10_000;
const keptMs = 600_000;

/** Keeps the display names that sign-in tokens have, for operators to read (contract.md#si1-sign-in-by-any-provider). */
export function createDisplayNames({
  names,
  log,
  waitMs = 1_000,
}: {
  names: Pick<NameStore, 'keepName'>;
  log: Pick<Log, 'debug'>;
  waitMs?: number;
}) {
  const kept = new LRUCache<string, string>({ max: accountsMax, ttl: keptMs });
  return {
    /**
     * Keeps the name of an account. The store is asked only if this ingress has not kept the same name recently, or after a change of the
     * account, which may have created it. Never fails, and ends within a second.
     */
    async keep(id: string, name: string, { isChange }: { isChange: boolean }): Promise<void> {
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

export type DisplayNames = ReturnType<typeof createDisplayNames>;
