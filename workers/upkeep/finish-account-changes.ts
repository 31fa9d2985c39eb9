import { setTimeout as sleep } from 'node:timers/promises';
import type { ApplyTopUpCode } from '../../shared/account-changes/apply-top-up-code.ts';
import type { ClearAccount } from '../../shared/account-changes/remove-account.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { Log } from '../../shared/process/log.ts';
import { type Redis, redisNow } from '../../shared/redis/connections.ts';
import { auditLockKey } from '../../shared/redis/keys.ts';
import type { AccountStore } from '../../shared/store/records/account-store.ts';
import type { AuditStore } from '../../shared/store/records/audit-store.ts';
import type { TopUpCodeStore } from '../../shared/store/records/top-up-codes.ts';
import type { AcquireLock, ReleaseLock } from './locks.ts';
import { repeatTask } from './repeat-task.ts';

const itemsAtOnce = 100;
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
    let completed = 0;
    const failures = await forEachItem(signal, {
      list: (after) => codes.listClaimedCodes({ before, after, limit: itemsAtOnce }),
      idOf: ({ id }) => id,
      async work(code) {
        await applyTopUpCode(code, { at });
        completed++;
      },
    });
    if (completed > 0) log.info({ codes: completed }, 'redeemed top-up codes were completed');
    if (failures.length > 0) throw failures[0];
  }

  return repeatTask({ work: completeAll, everyMs, log, failed: 'top-up codes were not completed; trying again' });
}

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
    const failures = await forEachItem(signal, {
      list: (after) => store.listRemovals({ after, limit: itemsAtOnce }),
      idOf: (account) => account,
      async work(account) {
        if (await clearAccount(account, new Date(await redisNow(redis))))
          log.info({ account }, 'an account was removed');
      },
    });
    if (failures.length > 0) throw failures[0];
  }

  return repeatTask({ work: clearAll, everyMs, log, failed: 'an account was not removed; trying again' });
}

/** Between two pages, so that copying does not slow down other work. */
const pauseMs = 5;
const releaseMs = 500;

/**
 * Every few minutes, one worker of the fleet copies the audit records that wait in accounts and top-up codes: those of an ingress that
 * ended before it copied them.
 */
export function startAuditCopy({
  audit,
  acquireLock,
  releaseLock,
  log,
  everyMs = 300_000,
}: {
  audit: Pick<AuditStore, 'copyAuditAfter' | 'copyCodeAuditAfter'>;
  acquireLock: AcquireLock;
  releaseLock: ReleaseLock;
  log: Pick<Log, 'info' | 'warn'>;
  everyMs?: number;
}): AsyncDisposable {
  async function copyEach(copyAfter: AuditStore['copyAuditAfter'], signal: AbortSignal): Promise<number> {
    let copied = 0;
    let after: string | undefined = '';
    while (after !== undefined && !signal.aborted && (await acquireLock(auditLockKey))) {
      const page = await copyAfter(after, itemsAtOnce);
      copied += page.copied;
      if (page.unreadable.length > 0)
        log.warn({ ids: page.unreadable }, 'these cannot be read; their audit records still wait');
      after = page.last;
      await sleep(pauseMs, undefined, { signal });
    }
    return copied;
  }

  async function copyAll(signal: AbortSignal): Promise<void> {
    const copied = (await copyEach(audit.copyAuditAfter, signal)) + (await copyEach(audit.copyCodeAuditAfter, signal));
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

/** Works on all items, page by page, until the signal is aborted. Returns the failures: an item that fails does not block the others. */
async function forEachItem<Item>(
  signal: AbortSignal,
  {
    list,
    idOf,
    work,
  }: {
    list: (after: string) => Promise<readonly Item[]>;
    idOf: (item: Item) => string;
    work: (item: Item) => Promise<void>;
  },
): Promise<unknown[]> {
  const failures: unknown[] = [];
  for (let after = ''; !signal.aborted; ) {
    const found = await list(after);
    for (const item of found) {
      if (signal.aborted) break;
      await work(item).catch((error: unknown) => failures.push(error));
    }
    const last = found.at(-1);
    if (found.length < itemsAtOnce || last === undefined) break;
    after = idOf(last);
  }
  return failures;
}
