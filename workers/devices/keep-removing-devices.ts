import type { Log } from '../../shared/log.ts';
import { deviceKeeperKey } from '../../shared/redis-keys.ts';
import type { Hold } from '../holds/hold.ts';
import { keepDoing } from '../keep-doing.ts';
import type { RemoveUnusedDevices } from './remove-unused-devices.ts';

type Parts = {
  removeUnusedDevices: RemoveUnusedDevices;
  hold: Hold;
  log: Pick<Log, 'warn'>;
  /** Well below the time for which `hold` holds. */
  everyMs?: number;
  /** Milliseconds of a clock that only goes forward. */
  now?: () => number;
};

/** After a pass that ended. One that failed is tried again at the next turn. */
const passEveryMs = 86_400_000;

/** Has one worker of all remove unused devices once a day. If it dies, another one begins a pass of its own. */
export function keepRemovingDevices(parts: Parts): AsyncDisposable {
  const { removeUnusedDevices, hold, log, everyMs = 60_000, now = () => performance.now() } = parts;
  let dueAt = now();
  return keepDoing({
    ...{ everyMs, log, failed: 'unused devices were not removed; trying again' },
    async work(signal) {
      const isHeld = async () => !signal.aborted && (await hold(deviceKeeperKey));
      if (!(await isHeld()) || now() < dueAt) return;
      await removeUnusedDevices(isHeld);
      dueAt = now() + passEveryMs;
    },
  });
}
