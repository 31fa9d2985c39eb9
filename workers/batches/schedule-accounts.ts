import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Log } from '../../shared/log.ts';
import { readStrings } from '../../shared/redis.ts';
import { batchKeeperKey, batchSchedulerKey } from '../../shared/redis-keys.ts';
import { within } from '../../shared/shutdown.ts';
import type { BatchStore } from '../../shared/store/batch-store.ts';
import type { Hold } from '../holds/hold.ts';
import type { Leave } from '../holds/leave.ts';
import type { AssignAccounts } from './assign-accounts.ts';
import { shareAccounts } from './share-accounts.ts';

type Parts = {
  workerId: string;
  redis: Redis;
  store: Pick<BatchStore, 'listOpenAccounts'>;
  /** Of the scheduler's lock, for `schedulerHoldMs`. */
  hold: Hold;
  leave: Leave;
  /** The workers that are alive. */
  listWorkers: () => Promise<string[]>;
  assign: AssignAccounts;
  /** False while other workers cannot be reached. */
  canAssign: () => boolean;
  /** Has this worker look after these accounts. */
  take: (accounts: readonly string[]) => void;
  log: Pick<Log, 'warn'>;
  lookEveryMs?: number;
  electEveryMs?: number;
  renewEveryMs?: number;
  passOverMs?: number;
  random?: () => number;
};

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
export function scheduleAccounts(parts: Parts): AsyncDisposable {
  const { workerId, redis, store, hold, leave, log, random = Math.random } = parts;
  const { lookEveryMs = 500, electEveryMs = 2_000, renewEveryMs = 1_500, passOverMs = 5_000 } = parts;
  const closing = new AbortController();
  const { signal } = closing;
  /** At the last look, to workers other than this one. */
  const assigned = new Map<string, string>();
  /** Workers that are assigned nothing, and until when. */
  const passedOver = new Map<string, number>();
  let heldAt = Number.NEGATIVE_INFINITY;

  async function isScheduler(): Promise<boolean> {
    const askedAt = performance.now();
    if (askedAt - heldAt < renewEveryMs) return true;
    const isHeld = await hold(batchSchedulerKey);
    heldAt = isHeld ? askedAt : Number.NEGATIVE_INFINITY;
    return isHeld;
  }

  /** Says how many accounts there are. */
  async function look(): Promise<number> {
    const accounts = await store.listOpenAccounts();
    const holders = await readStrings(redis, accounts.map(batchKeeperKey));
    const free = accounts.filter((_, index) => holders[index] === null);
    passOverSilent(free);
    if (free.length > 0) await assignSome(free, holders);
    return accounts.length;
  }

  /** A worker that has not taken what it was assigned may have died, or is about to end. */
  function passOverSilent(free: readonly string[]): void {
    for (const worker of new Set(free.flatMap((account) => assigned.get(account) ?? []))) passOver(worker);
    assigned.clear();
    for (const [worker, until] of passedOver) if (until <= performance.now()) passedOver.delete(worker);
  }

  function passOver(worker: string): void {
    passedOver.set(worker, performance.now() + passOverMs);
  }

  async function assignSome(free: readonly string[], holders: readonly (string | null)[]): Promise<void> {
    const others = parts.canAssign() ? await parts.listWorkers() : [];
    const live = [workerId, ...others.filter((worker) => !passedOver.has(worker))];
    const loads = new Map(live.map((worker) => [worker, 0]));
    for (const holder of holders) {
      const load = loads.get(holder ?? '');
      if (holder !== null && load !== undefined) loads.set(holder, load + 1);
    }
    const shares = shareAccounts({ accounts: free, loads, sharedMax: assignedMax, random });
    await within(assignMs, Promise.all([...shares].map(([worker, share]) => assignTo(worker, share))));
  }

  async function assignTo(worker: string, accounts: readonly string[]): Promise<void> {
    if (signal.aborted) return;
    if (worker === workerId) return parts.take(accounts);
    if (!(await parts.assign(worker, accounts))) return passOver(worker);
    for (const account of accounts) assigned.set(account, worker);
  }

  /** Says how long to pause. Workers that have started together do not ask together. */
  async function turn(): Promise<number> {
    if (!(await isScheduler())) return electEveryMs * (0.75 + random() / 4);
    return Math.min(pauseMsMax, lookEveryMs + (await look()) * pausePerAccountMs);
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
      await within(closeMs, leave(batchSchedulerKey)).catch(() => {});
    },
  };
}
