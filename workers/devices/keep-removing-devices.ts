import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../shared/log.ts';
import { deviceKeeperKey } from '../../shared/redis-keys.ts';
import { within } from '../../shared/shutdown.ts';
import type { Hold } from '../holds/hold.ts';
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
const closeMs = 500;

/** Has one worker of all remove unused devices once a day. If it dies, another one begins a pass of its own. */
export function keepRemovingDevices(parts: Parts): AsyncDisposable {
  const { removeUnusedDevices, hold, log, everyMs = 60_000, now = () => performance.now() } = parts;
  const closing = new AbortController();
  const { signal } = closing;
  const isHeld = async () => !signal.aborted && (await hold(deviceKeeperKey));

  async function keepRemoving(): Promise<void> {
    let dueAt = now();
    while (!signal.aborted) {
      try {
        if ((await isHeld()) && now() >= dueAt) {
          await removeUnusedDevices(isHeld);
          dueAt = now() + passEveryMs;
        }
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error }, 'unused devices were not removed; trying again');
      }
      await sleep(everyMs, undefined, { signal }).catch(() => {});
    }
  }

  const removing = keepRemoving();

  return {
    async [Symbol.asyncDispose]() {
      closing.abort();
      await within(closeMs, removing);
    },
  };
}
