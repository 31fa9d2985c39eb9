import { createApplyTopUpCode } from '../../shared/account-changes/apply-top-up-code.ts';
import { createChangeAccount } from '../../shared/account-changes/change-account.ts';
import { createRecordedChange } from '../../shared/account-changes/recorded-change.ts';
import { createClearAccount } from '../../shared/account-changes/remove-account.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import type { Store } from '../../shared/store/store.ts';
import { createAcquireLock, createReleaseLock } from './locks.ts';
import { type createIndexMetrics, createObserveIndexes } from './observe-indexes.ts';
import { createRemoveUnusedDevices } from './remove-unused-devices.ts';
import { startAccountRemoval } from './start-account-removal.ts';
import { startAuditCopy } from './start-audit-copy.ts';
import { startCodeCompletion } from './start-code-completion.ts';
import { startDeviceRemoval } from './start-device-removal.ts';

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
