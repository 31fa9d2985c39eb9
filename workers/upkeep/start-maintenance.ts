import type { Registry } from 'prom-client';
import { createApplyTopUpCode } from '../../shared/account-changes/apply-top-up-code.ts';
import { createChangeAccount, createRecordedChange } from '../../shared/account-changes/change-account.ts';
import { createClearAccount } from '../../shared/account-changes/remove-account.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import { observeGauge } from '../../shared/process/metrics.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { startAccountRemoval, startAuditCopy, startCodeCompletion } from './finish-account-changes.ts';
import { createAcquireLock, createReleaseLock } from './locks.ts';
import { createRemoveUnusedDevices, startDeviceRemoval } from './remove-unused-devices.ts';

/** Longer than the pause between two passes, so that the same worker continues. */
const auditHoldMs = 360_000;
const devicesHoldMs = 180_000;

/**
 * Starts the tasks that one worker of the fleet does for all: copying audit records, and removing unused devices. Each worker completes
 * top-up codes and removals of accounts. Observes indexes.
 */
export function startMaintenance({
  redis,
  store,
  workerId,
  currentPlanFile,
  metrics,
  log,
}: {
  redis: Redis;
  store: Store;
  workerId: string;
  currentPlanFile: () => Pick<PlanFile, 'guestDaysKept' | 'defaultPlan'>;
  metrics: ReturnType<typeof createIndexMetrics>;
  log: Log;
}): AsyncDisposable {
  metrics.observeIndexes(createObserveIndexes({ store, log }));
  const copying = startAuditCopy({
    audit: store.audit,
    acquireLock: createAcquireLock(redis, { workerId, holdMs: auditHoldMs }),
    releaseLock: createReleaseLock(redis, { workerId }),
    log,
  });
  const removing = startDeviceRemoval({
    redis,
    removeUnusedDevices: createRemoveUnusedDevices({
      redis,
      store,
      daysKept: () => currentPlanFile().guestDaysKept,
      log,
    }),
    acquireLock: createAcquireLock(redis, { workerId, holdMs: devicesHoldMs }),
    log,
  });
  const changeAccount = createChangeAccount({ redis, store: store.accounts, log });
  const changeRecorded = createRecordedChange({ changeAccount, store, log });
  const clearing = startAccountRemoval({
    redis,
    store: store.accounts,
    clearAccount: createClearAccount({ store, changeAccount }),
    log,
  });
  const completing = startCodeCompletion({
    redis,
    codes: store.topUpCodes,
    log,
    applyTopUpCode: createApplyTopUpCode({
      changeRecorded,
      store,
      defaultPlan: () => currentPlanFile().defaultPlan,
      log,
    }),
  });
  return {
    async [Symbol.asyncDispose]() {
      await Promise.all([copying, removing, completing, clearing].map((task) => task[Symbol.asyncDispose]()));
    },
  };
}

/** A scrape in between gets the last answer. */
const lookEveryMs = 60_000;

/** Returns how many indexes of the store are missing; undefined if the store does not answer. Logs their names when they change. */
export function createObserveIndexes({
  store,
  log,
  now = () => performance.now(),
}: {
  store: Pick<Store, 'listMissingIndexes'>;
  log: Pick<Log, 'warn' | 'info'>;
  now?: () => number;
}): () => Promise<number | undefined> {
  let last: { at: number; missing: Promise<number | undefined> } | undefined;
  let reported = '';

  async function look(): Promise<number | undefined> {
    try {
      const missing = (await store.listMissingIndexes()).sort();
      const names = missing.join(', ');
      if (names !== reported && missing.length > 0)
        log.warn({ indexes: missing }, 'the store has not all indexes; calls that need them are slow');
      else if (names !== reported) log.info({}, 'the store has all indexes');
      reported = names;
      return missing.length;
    } catch {
      return undefined; // the check of the store reports that it is unavailable
    }
  }

  return function observeIndexes() {
    if (last === undefined || now() - last.at >= lookEveryMs) last = { at: now(), missing: look() };
    return last.missing;
  };
}

/** Registers the gauge. `look` is called at each scrape. */
export function createIndexMetrics(registry: Registry) {
  return {
    observeIndexes: (look: () => Promise<number | undefined>): void =>
      observeGauge(registry, {
        name: 'svc_store_indexes_missing',
        help: 'Indexes that the store does not have; the log of this worker has their names',
        read: look,
      }),
  };
}
