import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../shared/process/log.ts';
import { within } from '../../shared/process/shutdown.ts';
import { auditLockKey } from '../../shared/redis/coordination-keys.ts';
import type { AuditStore } from '../../shared/store/accounts/audit-store.ts';
import type { AcquireLock, ReleaseLock } from './locks.ts';
import { repeatTask } from './repeat-task.ts';

const accountsAtOnce = 100;
/** Between two pages, so that copying does not slow down other work. */
const pauseMs = 5;
const releaseMs = 500;

/**
 * Every few minutes, one worker of the fleet copies the audit records that wait in accounts: those of an ingress that ended before it
 * copied them.
 */
export function startAuditCopy({
  audit,
  acquireLock,
  releaseLock,
  log,
  everyMs = 300_000,
}: {
  audit: Pick<AuditStore, 'copyAuditAfter'>;
  acquireLock: AcquireLock;
  releaseLock: ReleaseLock;
  log: Pick<Log, 'info' | 'warn'>;
  everyMs?: number;
}): AsyncDisposable {
  async function copyAll(signal: AbortSignal): Promise<void> {
    let copied = 0;
    let after: string | undefined = '';
    while (after !== undefined && !signal.aborted && (await acquireLock(auditLockKey))) {
      const page = await audit.copyAuditAfter(after, accountsAtOnce);
      copied += page.copied;
      if (page.unreadable.length > 0)
        log.warn({ accounts: page.unreadable }, 'these accounts cannot be read; their audit records still wait');
      after = page.last;
      await sleep(pauseMs, undefined, { signal });
    }
    if (copied > 0) log.info({ records: copied }, 'waiting audit records were copied');
  }

  const failed = 'audit records that wait were not copied; trying again';
  const copying = repeatTask({ work: copyAll, everyMs, failed, log });

  return {
    async [Symbol.asyncDispose]() {
      await copying[Symbol.asyncDispose]();
      await within(releaseMs, releaseLock(auditLockKey)).catch(() => {});
    },
  };
}
