import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { ListWorkers } from '../../../shared/jobs/list-workers.ts';
import type { Log } from '../../../shared/process/log.ts';
import { within } from '../../../shared/process/shutdown.ts';
import { readStrings } from '../../../shared/redis/connections.ts';
import { batchLockKey, batchSchedulerLockKey } from '../../../shared/redis/keys.ts';
import type { BatchStore } from '../../../shared/store/batches/batch-store.ts';
import type { AcquireLock } from '../../locks/acquire.ts';
import type { ReleaseLock } from '../../locks/release.ts';
import type { AssignAccounts } from './assign-accounts.ts';
import { shareAccounts } from './share-accounts.ts';

/** A dead scheduler is replaced after so long, plus the time until another worker asks. */
export const schedulerHoldMs = 5_000;
/** Of a worker at a look: it reads the batches of all its accounts at once. */
const assignedMax = 16;
/** With many accounts each look is work for the store: a pause of so long for each of them. */
const pausePerAccountMs = 1;
const pauseMsMax = 2_000;
/** For a Redis that does not answer: what was not assigned is assigned at a later look. */
const assignMs = 1_000;
const closeMs = 500;

/**
 * Has one worker of all list the accounts with open batches, and assign those that no worker holds to the live workers that hold the
 * fewest. Only for economy: an account that is assigned twice is held by one worker, and one that is not taken is assigned again.
 */
export function scheduleAccounts(deps: {
  workerId: string;
  redis: Redis;
  store: Pick<BatchStore, 'listOpenAccounts'>;
  /** Of the scheduler's lock, for `schedulerHoldMs`. */
  acquireLock: AcquireLock;
  releaseLock: ReleaseLock;
  listWorkers: ListWorkers;
  assign: AssignAccounts;
  /** False while other workers cannot be reached. */
  canAssign: () => boolean;
  /** Has this worker look after these accounts. */
  take: (accounts: readonly string[]) => void;
  log: Pick<Log, 'warn'>;
  lookEveryMs?: number;
  electEveryMs?: number;
  renewEveryMs?: number;
  random?: () => number;
}): AsyncDisposable {
  const { workerId, redis, store, acquireLock, releaseLock, log, random = Math.random } = deps;
  const { lookEveryMs = 500, electEveryMs = 2_000, renewEveryMs = 1_500 } = deps;
  const closing = new AbortController();
  const { signal } = closing;
  let heldAt = Number.NEGATIVE_INFINITY;

  async function isScheduler(): Promise<boolean> {
    const askedAt = performance.now();
    if (askedAt - heldAt < renewEveryMs) return true;
    const isHeld = await acquireLock(batchSchedulerLockKey);
    heldAt = isHeld ? askedAt : Number.NEGATIVE_INFINITY;
    return isHeld;
  }

  /** Says how many accounts there are. */
  async function look(): Promise<number> {
    const accounts = await store.listOpenAccounts();
    const holders = await readStrings(redis, accounts.map(batchLockKey));
    const free = accounts.filter((_, index) => holders[index] === null);
    if (free.length > 0) await assignSome(free, holders);
    return accounts.length;
  }

  async function assignSome(free: readonly string[], holders: readonly (string | null)[]): Promise<void> {
    const others = deps.canAssign() ? await deps.listWorkers() : [];
    const loads = new Map([workerId, ...others].map((worker) => [worker, 0]));
    for (const holder of holders) {
      const load = loads.get(holder ?? '');
      if (holder !== null && load !== undefined) loads.set(holder, load + 1);
    }
    const shares = shareAccounts({ accounts: free, loads, sharedMax: assignedMax, random });
    await within(assignMs, Promise.all([...shares].map(([worker, share]) => assignTo(worker, share))));
  }

  async function assignTo(worker: string, accounts: readonly string[]): Promise<void> {
    if (signal.aborted) return;
    // A worker whose control stream is gone cannot be asked.
    if (worker === workerId || !(await deps.assign(worker, accounts))) deps.take(accounts);
  }

  /** Says how long to pause. Workers that have started together do not ask together. */
  async function turn(): Promise<number> {
    if (!(await isScheduler())) return electEveryMs * (0.75 + random() / 4);
    try {
      return Math.min(pauseMsMax, lookEveryMs + (await look()) * pausePerAccountMs);
    } catch (error) {
      // Another worker may reach the store.
      heldAt = Number.NEGATIVE_INFINITY;
      await releaseLock(batchSchedulerLockKey);
      throw error;
    }
  }

  async function keepLooking(): Promise<void> {
    while (!signal.aborted) {
      const pauseMs = await turn().catch((error: unknown) => {
        if (!signal.aborted) log.warn({ err: error }, 'it is not known which accounts have batches; trying again');
        return electEveryMs;
      });
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  }

  const looking = keepLooking();

  return {
    async [Symbol.asyncDispose]() {
      closing.abort();
      await within(closeMs, looking);
      await within(closeMs, releaseLock(batchSchedulerLockKey)).catch(() => {});
    },
  };
}
