import type { ApplyTopUpCode } from '../../shared/account-changes/apply-top-up-code.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { redisNow } from '../../shared/redis/redis-now.ts';
import type { TopUpCodeStore } from '../../shared/store/top-up-codes/top-up-code-store.ts';
import { repeatTask } from './repeat-task.ts';

const codesAtOnce = 100;
/** An ingress that is alive has applied its code by then. */
const ingressMs = 10_000;

/**
 * Applies top-up codes that an ingress has claimed for an account and did not complete, because it died or the store was away. Every worker
 * does it, because it can be repeated without effect (contract.md#j5-overage-and-top-up-codes). A code that fails does not block the
 * others.
 */
export function startCodeCompletion({
  redis,
  codes,
  applyTopUpCode,
  log,
  everyMs = 30_000,
}: {
  redis: Redis;
  codes: Pick<TopUpCodeStore, 'listClaimedCodes'>;
  applyTopUpCode: ApplyTopUpCode;
  log: Pick<Log, 'info' | 'warn'>;
  everyMs?: number;
}): AsyncDisposable {
  async function completeAll(signal: AbortSignal): Promise<void> {
    const at = new Date(await redisNow(redis));
    const before = new Date(at.getTime() - ingressMs);
    const failures: unknown[] = [];
    let completed = 0;
    for (let after = ''; !signal.aborted; ) {
      const found = await codes.listClaimedCodes({ before, after, limit: codesAtOnce });
      for (const code of found) {
        if (signal.aborted) break;
        try {
          await applyTopUpCode(code, { at });
          completed++;
        } catch (error) {
          failures.push(error);
        }
      }
      const last = found.at(-1);
      if (found.length < codesAtOnce || last === undefined) break;
      after = last.id;
    }
    if (completed > 0) log.info({ codes: completed }, 'redeemed top-up codes were completed');
    if (failures.length > 0) throw failures[0];
  }

  return repeatTask({ work: completeAll, everyMs, log, failed: 'top-up codes were not completed; trying again' });
}
