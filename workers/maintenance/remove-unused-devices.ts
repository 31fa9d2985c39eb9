import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { ulid } from 'ulid';
import { toApiError } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import { monthOf } from '../../shared/store/accounts/account.ts';
import type { Store } from '../../shared/store/store.ts';
import { agreedNow } from '../redis-now.ts';
import { isRemovable, isUnused } from './is-removable.ts';
import { createMarkRemoval, markLifeMs } from './mark-removal.ts';

/**
 * One pass over all devices, and whether it has come to its end: it stops early if `mayGoOn`, asked after each page, says so. The
 * next one then goes on where this one stopped or failed.
 */
export type RemoveUnusedDevices = (mayGoOn: () => Promise<boolean>) => Promise<boolean>;

const dayMs = 86_400_000;
const devicesAtOnce = 100;
/** Four thousand devices a second at most: others need the store, too. */
const pauseMs = 25;

/**
 * Removes devices that were not used for `daysKept` days, by Redis's clock. Recent uses are in Redis, older ones in the account
 * and in its usage: a device is removed only if none of them knows of one. A process may be killed between any two steps: the
 * mark ends without it, and the account is there or it is not.
 */
export function createRemoveUnusedDevices({
  redis,
  store,
  daysKept,
  log,
  now,
}: {
  redis: Redis;
  store: Pick<Store, 'listAccounts' | 'findAccount' | 'listUsageMonths' | 'removeAccount'>;
  daysKept: number;
  log: Pick<Log, 'info' | 'warn'>;
  now?: () => number;
}): RemoveUnusedDevices {
  const markRemoval = createMarkRemoval(redis);
  let after: string | undefined;

  async function remove(id: string, since: Date): Promise<boolean> {
    const device = await store.findAccount(id);
    if (device === undefined || !isRemovable(device, since) || (await hasUsage(id, since))) return false;
    const markedAt = performance.now();
    if (!(await markRemoval(id, ulid()))) return false;
    // If this process or its connection stood still, the mark may be over.
    return performance.now() - markedAt < markLifeMs / 2 && store.removeAccount(device);
  }

  /** In the month of that day, or later. */
  async function hasUsage(account: string, since: Date): Promise<boolean> {
    const monthBefore = monthOf(new Date(Date.UTC(since.getUTCFullYear(), since.getUTCMonth() - 1)));
    const [next] = await store.listUsageMonths({ after: { account, month: monthBefore }, limit: 1 });
    return next?.account === account;
  }

  return async function removeUnusedDevices(mayGoOn) {
    const nowMs = await agreedNow(redis, now);
    if (nowMs === undefined) {
      log.warn({}, 'the clocks of Redis and of this machine are a day apart or more; no devices are removed');
      return false;
    }
    const since = new Date(nowMs - daysKept * dayMs);
    const failures: unknown[] = [];
    let removed = 0;

    async function removeOrNote(id: string): Promise<void> {
      try {
        if (await remove(id, since)) removed++;
      } catch (error) {
        // One that cannot be removed must not keep the others.
        if (toApiError(error).code === 'SERVICE_UNAVAILABLE') throw error;
        failures.push(error);
      }
    }

    for (; ; await sleep(pauseMs)) {
      const devices = await store.listAccounts({ prefix: 'device:', after, limit: devicesAtOnce });
      for (const device of devices) if (isUnused(device, since)) await removeOrNote(device.id);
      after = devices.length < devicesAtOnce ? undefined : devices.at(-1)?.id;
      if (after === undefined || !(await mayGoOn())) break;
    }
    if (removed > 0) log.info({ since, removed }, 'devices that were no longer used were removed');
    if (failures.length > 0) log.warn({ err: failures[0], devices: failures.length }, 'some devices were not removed');
    return after === undefined;
  };
}
