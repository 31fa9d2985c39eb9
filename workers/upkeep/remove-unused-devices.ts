import { setTimeout as sleep } from 'node:timers/promises';
import { ulid } from 'ulid';
import { z } from 'zod';
import { markLifeMs } from '../../shared/account-changes/change-account.ts';
import { toApiError } from '../../shared/errors.ts';
import { guestPlan } from '../../shared/plan-file/plan-file-schema.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { agreedNow } from '../../shared/redis/connections.ts';
import { countersKey, deviceLockKey, devicesLookedAtKey, leasesKey, versionKeysOf } from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';
import { type Account, lastSeen, monthOf } from '../../shared/store/records/account.ts';
import type { ListedAccount } from '../../shared/store/records/account-store.ts';
import { lastUseOf } from '../../shared/store/records/key.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { AcquireLock } from './locks.ts';
import { repeatTask } from './repeat-task.ts';

const script = loadLua(new URL('./mark-removal.lua', import.meta.url), {
  keys: 'versionKey fillKey changesKey countersKey leasesKey',
  args: 'change lifeMs',
});

/**
 * Makes one pass over all devices. True if it has reached the end. It stops early if `mayContinue`, called after each page, returns
 * false. The next pass continues where this one stopped or failed.
 */
export type RemoveUnusedDevices = (mayContinue: () => Promise<boolean>) => Promise<boolean>;

const dayMs = 86_400_000;
const devicesAtOnce = 100;
/** At most four thousand devices a second: other work needs the store, too. */
const pauseMs = 25;

/**
 * Removes devices that were not used for `daysKept` days, by Redis's clock (contract.md#l5-guest-mint,
 * decisions.md#devices-are-removed-in-a-daily-pass). Recent uses are in Redis, older ones in the account and in its usage: a device is
 * removed only if none of them has a use. A process may be killed between any two steps: the mark expires, and the account exists or it
 * does not.
 */
export function createRemoveUnusedDevices({
  redis,
  store,
  daysKept,
  log,
  now,
}: {
  redis: Redis;
  store: Pick<Store, 'accounts' | 'usage'>;
  daysKept: () => number;
  log: Pick<Log, 'info' | 'warn'>;
  now?: () => number;
}): RemoveUnusedDevices {
  const markRemoval = createMarkRemoval(redis);
  let after: string | undefined;

  async function remove(id: string, since: Date): Promise<boolean> {
    const device = await store.accounts.findAccount(id);
    if (device === undefined || !isRemovable(device, since) || (await hasUsage(id, since))) return false;
    const markedAt = performance.now();
    if (!(await markRemoval(id, ulid()))) return false;
    // If this process or its connection was suspended, the mark may have expired.
    return performance.now() - markedAt < markLifeMs / 2 && store.accounts.removeAccount(device);
  }

  /** Whether it has usage in the month of that day, or later. */
  async function hasUsage(account: string, since: Date): Promise<boolean> {
    const monthBefore = monthOf(new Date(Date.UTC(since.getUTCFullYear(), since.getUTCMonth() - 1)));
    const [next] = await store.usage.listUsageMonths({ after: { account, month: monthBefore }, limit: 1 });
    return next?.account === account;
  }

  return async function removeUnusedDevices(mayContinue) {
    const nowMs = await agreedNow(redis, now);
    if (nowMs === undefined) {
      log.warn({}, 'the clocks of Redis and of this machine are a day apart or more; no devices are removed');
      return false;
    }
    const since = new Date(nowMs - daysKept() * dayMs);
    const failures: unknown[] = [];
    let removed = 0;

    async function removeOrNote(id: string): Promise<void> {
      try {
        if (await remove(id, since)) removed++;
      } catch (error) {
        // A device that cannot be removed must not block the others.
        if (toApiError(error).code === 'SERVICE_UNAVAILABLE') throw error;
        failures.push(error);
      }
    }

    for (; ; await sleep(pauseMs)) {
      const devices = await store.accounts.listAccounts({ prefix: 'device:', after, limit: devicesAtOnce });
      for (const device of devices) if (isUnused(device, since)) await removeOrNote(device.id);
      after = devices.length < devicesAtOnce ? undefined : devices.at(-1)?.id;
      if (after === undefined || !(await mayContinue())) break;
    }
    if (removed > 0) log.info({ since, removed }, 'devices that were no longer used were removed');
    if (failures.length > 0) log.warn({ err: failures[0], devices: failures.length }, 'some devices were not removed');
    return after === undefined;
  };
}

const appliedSchema = z.number();

/** Marks this device as being removed. False if it is in use or being changed. `change`: an id of this removal. */
type MarkRemoval = (account: string, change: string) => Promise<boolean>;

export function createMarkRemoval(redis: Redis): MarkRemoval {
  const run = loadScript(redis, script);
  return async function markRemoval(account, change) {
    const ofUse = { countersKey: countersKey(account), leasesKey: leasesKey(account) };
    return appliedSchema.parse(await run({ ...versionKeysOf(account), ...ofUse, change, lifeMs: markLifeMs })) === 1;
  };
}

/** Whether a device may be removable, by its entry in the list of accounts. */
function isUnused(device: ListedAccount, since: Date): boolean {
  return lastSeen(device) < since && hasUsualSettings(device);
}

/**
 * Whether a device can be removed, by its account: unused since then, and never changed by an operator. Otherwise a suspension would end,
 * a top-up could be made twice, and audit records that are not copied yet would be lost.
 */
export function isRemovable(device: Account, since: Date): boolean {
  const { id, changes, topUpsMade } = device;
  const isChanged = changes.some(({ by, at }) => by !== id || at >= since);
  const usedAt = lastUseOf(device.keys);
  return isUnused({ ...device, ...(usedAt && { usedAt }) }, since) && topUpsMade.length === 0 && !isChanged;
}

function hasUsualSettings({ id, plan, suspended, overageEnabled }: ListedAccount): boolean {
  return id.startsWith('device:') && plan === guestPlan && !suspended && !overageEnabled;
}

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
