import type { Log } from '../../shared/process/log.ts';
import { within } from '../../shared/process/shutdown.ts';
import { batchEventsLockKey, webhookUpkeepLockKey } from '../../shared/redis/coordination-keys.ts';
import type { Store } from '../../shared/store/store.ts';
import type { AcquireLock, ReleaseLock } from '../upkeep/locks.ts';
import { repeatTask } from '../upkeep/repeat-task.ts';
import { createAnnounceBatches } from './announce-batches.ts';
import { createAnnounceExpiringKeys } from './announce-expiring-keys.ts';
import { removeOldDeliveries } from './remove-old-deliveries.ts';

const batchesEveryMs = 1_000;
const keysEveryMs = 900_000;
const releaseMs = 500;

type Deps = {
  store: Pick<Store, 'batches' | 'accounts' | 'webhooks'>;
  acquireBatchLock: AcquireLock;
  acquireUpkeepLock: AcquireLock;
  releaseLock: ReleaseLock;
  now: () => Promise<number>;
  log: Pick<Log, 'warn'>;
};

/** One worker of the fleet creates the events of batches, every second, and one those of expiring keys, every 15 minutes. */
export function startAnnouncing(deps: Deps): AsyncDisposable {
  const { store, acquireBatchLock, acquireUpkeepLock, releaseLock, log } = deps;
  const announceBatches = createAnnounceBatches(store);
  const announceExpiringKeys = createAnnounceExpiringKeys(store);
  const now = async () => new Date(await deps.now());

  const batches = repeatTask({
    log,
    everyMs: batchesEveryMs,
    failed: 'events of batches were not created; trying again',
    async work(signal) {
      while (!signal.aborted && (await acquireBatchLock(batchEventsLockKey)) && (await announceBatches(await now())));
    },
  });
  const upkeep = repeatTask({
    log,
    everyMs: keysEveryMs,
    failed: 'expiring keys were not checked for events; trying again',
    async work(signal) {
      if (!(await acquireUpkeepLock(webhookUpkeepLockKey))) return;
      await announceExpiringKeys(await now(), signal);
      await removeOldDeliveries(store.webhooks, { now: await now(), signal });
    },
  });

  return {
    async [Symbol.asyncDispose]() {
      await Promise.all([batches[Symbol.asyncDispose](), upkeep[Symbol.asyncDispose]()]);
      const released = Promise.all([releaseLock(batchEventsLockKey), releaseLock(webhookUpkeepLockKey)]);
      await within(releaseMs, released).catch(() => {});
    },
  };
}
