import type { ClearAccount } from '../../shared/account-changes/remove-account.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { redisNow } from '../../shared/redis/redis-now.ts';
import type { AccountStore } from '../../shared/store/accounts/account-store.ts';
import { repeatTask } from './repeat-task.ts';

const accountsAtOnce = 100;

/**
 * Completes removals of accounts that an ingress has begun: their batches had to end first, or the ingress died
 * (contract.md#si4-removal-of-an-account). Every worker does it, because it can be repeated without effect. An account that fails does not
 * block the others.
 */
export function startAccountRemoval({
  redis,
  store,
  clearAccount,
  log,
  everyMs = 10_000,
}: {
  redis: Redis;
  store: Pick<AccountStore, 'listRemovals'>;
  clearAccount: ClearAccount;
  log: Pick<Log, 'info' | 'warn'>;
  everyMs?: number;
}): AsyncDisposable {
  async function clearAll(signal: AbortSignal): Promise<void> {
    const failures: unknown[] = [];
    for (let after = ''; !signal.aborted; ) {
      const found = await store.listRemovals({ after, limit: accountsAtOnce });
      for (const account of found) {
        if (signal.aborted) return;
        try {
          if (await clearAccount(account, new Date(await redisNow(redis))))
            log.info({ account }, 'an account was removed');
        } catch (error) {
          failures.push(error);
        }
      }
      const last = found.at(-1);
      if (found.length < accountsAtOnce || last === undefined) break;
      after = last;
    }
    if (failures.length > 0) throw failures[0];
  }

  return repeatTask({ work: clearAll, everyMs, log, failed: 'an account was not removed; trying again' });
}
