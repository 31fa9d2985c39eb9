import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { deviceLockKey, devicesLookedAtKey } from '../../shared/redis/coordination-keys.ts';
import type { AcquireLock } from './locks.ts';
import type { RemoveUnusedDevices } from './remove-unused-devices.ts';
import { repeatTask } from './repeat-task.ts';

/** After a completed pass. A failed one continues at the next call. */
const passEveryMs = 86_400_000;

/** One worker of the fleet removes unused devices once a day. If it dies, another worker starts a new pass. */
export function startDeviceRemoval({
  redis,
  removeUnusedDevices,
  acquireLock,
  log,
  everyMs = 60_000,
}: {
  redis: Pick<Redis, 'exists' | 'set'>;
  removeUnusedDevices: RemoveUnusedDevices;
  acquireLock: AcquireLock;
  log: Pick<Log, 'warn'>;
  /** Well below the lifetime of the lock. */
  everyMs?: number;
}): AsyncDisposable {
  return repeatTask({
    everyMs,
    log,
    failed: 'unused devices were not removed; trying again',
    async work(signal) {
      const isHeld = async () => !signal.aborted && (await acquireLock(deviceLockKey));
      if (!(await isHeld()) || (await redis.exists(devicesLookedAtKey)) > 0) return;
      if (await removeUnusedDevices(isHeld)) await redis.set(devicesLookedAtKey, '1', 'PX', passEveryMs);
    },
  });
}
