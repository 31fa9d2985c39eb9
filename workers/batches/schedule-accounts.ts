import { z } from 'zod';
import { pauseToBeat } from '../../shared/concurrency/at-beat.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { ListWorkers } from '../../shared/fleet/follow-fleet.ts';
import { controlStreamLengthMax } from '../../shared/jobs/control-messages.ts';
import type { Log } from '../../shared/process/log.ts';
import { type Redis, readStrings } from '../../shared/redis/connections.ts';
import { batchLockKey, batchSchedulerLockKey, controlStreamKey } from '../../shared/redis/keys.ts';
import type { BatchStore } from '../../shared/store/records/batch-store.ts';
import type { AcquireLock, ReleaseLock } from '../upkeep/locks.ts';

/** A dead scheduler is replaced after this time, plus the time until another worker tries to acquire its lock. */
export const schedulerHoldMs = 5_000;
/** Accounts that one worker gets in one turn. It reads the batches of all its accounts at once. */
const assignedMax = 16;
/** Each turn loads the store in proportion to the accounts. So the pause grows by this for each of them. */
const pausePerAccountMs = 1;
const pauseMsMax = 2_000;
/** The wait for a Redis that does not answer. Accounts that were not assigned are assigned in a later turn. */
const assignMs = 1_000;
const closeMs = 500;

/**
 * Elects one of the workers. It lists the accounts with open batches, and assigns those that no worker holds to the live workers that hold
 * the fewest (contract.md#u1-scheduler, decisions.md#one-scheduler-for-open-batches). This only saves work: an account that is assigned
 * twice is held by one worker, and one that no worker took is assigned again.
 */
export function scheduleAccounts(deps: {
  workerId: string;
  redis: Redis;
  store: Pick<BatchStore, 'listOpenAccounts'>;
  /** Acquires the scheduler's lock for `schedulerHoldMs`. */
  acquireLock: AcquireLock;
  releaseLock: ReleaseLock;
  listWorkers: ListWorkers;
  /** Assigns accounts to another worker. False if that worker is gone. */
  assign: (worker: string, accounts: readonly string[]) => Promise<boolean>;
  /** False while other workers cannot be reached. */
  canAssign: () => boolean;
  /** Assigns accounts to this worker. */
  take: (accounts: readonly string[]) => void;
  log: Pick<Log, 'warn'>;
  refreshEveryMs?: number;
  electEveryMs?: number;
  renewEveryMs?: number;
  random?: () => number;
}): AsyncDisposable {
  const { workerId, redis, store, log, random = Math.random } = deps;
  const { refreshEveryMs = 500, electEveryMs = 2_000, renewEveryMs = 1_500 } = deps;
  const closing = new AbortController();
  const { signal } = closing;
  const election = createElection({ ...deps, renewEveryMs });

  /** Returns the number of accounts. */
  async function assignFree(): Promise<number> {
    const accounts = await store.listOpenAccounts();
    const holders = await readStrings(redis, accounts.map(batchLockKey));
    const free = accounts.filter((_, index) => holders[index] === null);
    if (free.length === 0) return accounts.length;
    const others = deps.canAssign() ? await deps.listWorkers() : [];
    const loads = loadsOf(
      [workerId, ...others],
      holders.filter((holder) => holder !== undefined),
    );
    const shares = shareAccounts({ accounts: free, loads, sharedMax: assignedMax, random });
    await within(assignMs, Promise.all([...shares].map(([worker, share]) => assignTo(worker, share))));
    return accounts.length;
  }

  async function assignTo(worker: string, accounts: readonly string[]): Promise<void> {
    if (signal.aborted) return;
    // A worker without a control stream is gone. If one cannot be reached, it may have got them nevertheless: the locks decide.
    const isAssigned = worker !== workerId && (await deps.assign(worker, accounts).catch(() => false));
    if (!isAssigned) deps.take(accounts);
  }

  /** Returns the pause until the next turn. It is random, so that workers that started together do not ask together. */
  async function turn(): Promise<number> {
    if (!(await election.isElected())) return electEveryMs * (0.75 + random() / 4);
    try {
      return Math.min(pauseMsMax, refreshEveryMs + (await assignFree()) * pausePerAccountMs);
    } catch (error) {
      // Another worker may reach the store.
      await election.resign();
      throw error;
    }
  }

  async function keepScheduling(): Promise<void> {
    while (!signal.aborted) {
      const pauseMs = await turn().catch((error: unknown) => {
        if (!signal.aborted) log.warn({ err: error }, 'accounts with batches could not be assigned; trying again');
        return electEveryMs;
      });
      await pauseToBeat(pauseMs, signal);
    }
  }

  const scheduling = keepScheduling();

  return {
    async [Symbol.asyncDispose]() {
      closing.abort();
      await within(closeMs, scheduling);
      await within(closeMs, election.resign()).catch(() => {});
    },
  };
}

/** The elected worker holds the scheduler's lock, and renews it. */
function createElection(deps: { acquireLock: AcquireLock; releaseLock: ReleaseLock; renewEveryMs: number }) {
  let heldAt = Number.NEGATIVE_INFINITY;
  return {
    async isElected(): Promise<boolean> {
      const askedAt = performance.now();
      if (askedAt - heldAt < deps.renewEveryMs) return true;
      const isHeld = await deps.acquireLock(batchSchedulerLockKey);
      heldAt = isHeld ? askedAt : Number.NEGATIVE_INFINITY;
      return isHeld;
    },
    async resign(): Promise<void> {
      heldAt = Number.NEGATIVE_INFINITY;
      await deps.releaseLock(batchSchedulerLockKey);
    },
  };
}

/** The number of accounts that each of these workers holds. */
function loadsOf(workers: readonly string[], holders: readonly (string | null)[]): Map<string, number> {
  const loads = new Map(workers.map((worker) => [worker, 0]));
  for (const holder of holders) {
    const load = holder === null ? undefined : loads.get(holder);
    if (holder !== null && load !== undefined) loads.set(holder, load + 1);
  }
  return loads;
}

/** `loads` is the number of accounts that each worker has. */
type ShareOptions = {
  accounts: readonly string[];
  loads: ReadonlyMap<string, number>;
  sharedMax: number;
  random: () => number;
};

/** Assigns each account to the worker that has the fewest. A worker gets at most `sharedMax` of them, and the rest is left out. */
export function shareAccounts({ accounts, loads, sharedMax, random }: ShareOptions): Map<string, string[]> {
  const places = [...loads].flatMap(([worker, load]) =>
    Array.from({ length: sharedMax }, (_, index) => ({ worker, load: load + index, lot: random() })),
  );
  places.sort((one, other) => one.load - other.load || one.lot - other.lot);
  const shares = new Map<string, string[]>();
  for (const [index, { worker }] of places.slice(0, accounts.length).entries()) {
    const account = accounts[index];
    if (account !== undefined) shares.set(worker, [...(shares.get(worker) ?? []), account]);
  }
  return shares;
}

const fieldsSchema = z.object({ accounts: z.string() });
const accountsSchema = z.array(z.string());

/** Asks a worker to run the batches of these accounts. False if the worker is gone. `redis` is the one with the control streams. */
export async function assignAccounts(redis: Redis, worker: string, accounts: readonly string[]): Promise<boolean> {
  const entry = ['accounts', JSON.stringify(accounts)];
  const length = ['MAXLEN', '~', controlStreamLengthMax] as const;
  return (await redis.xadd(controlStreamKey(worker), 'NOMKSTREAM', ...length, '*', ...entry)) !== null;
}

/** Returns the accounts that an entry of a control stream assigns. Empty for any other entry. */
export function decodeAssignment(fields: Readonly<Record<string, string>>): string[] {
  const entry = fieldsSchema.safeParse(fields);
  if (!entry.success) return [];
  try {
    return accountsSchema.safeParse(JSON.parse(entry.data.accounts)).data ?? [];
  } catch {
    return [];
  }
}
