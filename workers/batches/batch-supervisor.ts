import type { Batch } from '../../shared/batches/batch.ts';
import { pauseToBeat } from '../../shared/concurrency/at-beat.ts';
import { repeatWhile } from '../../shared/concurrency/repeat-while.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { Log } from '../../shared/process/log.ts';
import { batchLockKey } from '../../shared/redis/keys.ts';
import type { BatchStore } from '../../shared/store/records/batch-store.ts';
import type { AcquireLock, ReleaseLock } from '../upkeep/locks.ts';
import type { AccountScheduler } from './account-scheduler.ts';
import { type BatchSteps, createBatchSteps, type StepDeps } from './batch-steps.ts';
import type { LineEvent } from './lines/line-events.ts';

/** Runs the batches of the accounts that this worker holds. */
export interface BatchSupervisor extends AsyncDisposable {
  /** Takes these accounts, too, unless another worker holds them. */
  take(accounts: readonly string[]): void;
  /** Passes on an event of a line that this worker has queued. */
  receive(event: LineEvent): void;
}

/** Each refresh loads the store in proportion to the batches. So the pause grows by this for each of them. */
const pausePerBatchMs = 1;
/** Much shorter than the time for which an account is locked. */
const pauseMsMax = 2_000;
/** A lock is renewed several times before it expires. */
const renewEveryMs = 1_500;
/** The wait for a Redis or a store that does not answer. Locks that are not released expire. */
const closeMs = 500;

type HoldDeps = {
  acquireLock: AcquireLock;
  releaseLock: ReleaseLock;
  /** `refreshSoon` requests a refresh of the account soon. */
  createAccountScheduler: (account: string, refreshSoon: () => void) => AccountScheduler;
};

/** Takes the steps of the batches of the accounts that this worker holds, and has their lines run. */
export function superviseBatches(
  deps: StepDeps &
    HoldDeps & {
      store: Pick<BatchStore, 'listOpenBatches' | 'changeBatch' | 'changeRoom'>;
      refreshEveryMs?: number;
      /** The pause between two refreshes. Ends early, and does not fail, when the signal is aborted. */
      pause?: (ms: number, signal: AbortSignal) => Promise<void>;
    },
): BatchSupervisor {
  const { store, log, refreshEveryMs = 500, pause = pauseToBeat } = deps;
  const closing = new AbortController();
  const { signal } = closing;
  let nudge = Promise.withResolvers<void>();
  const refreshSoon = () => nudge.resolve();
  const steps = createBatchSteps({ ...deps, signal, onMoved: refreshSoon });
  const held = holdAccounts({ ...deps, signal, refreshSoon, onRelease: steps.stop });
  const refreshAccount = createRefreshAccount({ held, steps, log });

  /** Returns the number of open batches. */
  async function refresh(): Promise<number> {
    const accounts = held.accounts();
    const open = accounts.length === 0 ? [] : await store.listOpenBatches(accounts);
    steps.forgetOthers(new Set(open.map(({ id }) => id)));
    if (accounts.length === 0) return 0;
    const now = await deps.now();
    const byAccount = Map.groupBy(open, ({ account }) => account);
    for (const account of accounts) if (!byAccount.has(account)) await held.release(account);
    for (const [account, batches] of shuffled([...byAccount])) refreshAccount.begin(account, batches, now);
    return open.length;
  }

  async function keepRefreshing(): Promise<void> {
    while (!signal.aborted) {
      nudge = Promise.withResolvers<void>();
      const open = await refresh().catch((error: unknown) => {
        if (!signal.aborted) log.warn({ err: error }, 'the open batches could not be listed; trying again');
        return 0;
      });
      const restMs = open === 0 ? 2 * refreshEveryMs : refreshEveryMs + open * pausePerBatchMs;
      const pauseMs = Math.min(pauseMsMax, restMs) * (0.75 + Math.random() / 2);
      await Promise.race([pause(pauseMs, signal), nudge.promise]);
    }
  }

  const refreshing = keepRefreshing();

  return {
    take: held.take,
    receive(event) {
      for (const scheduler of held.schedulers()) scheduler.receive(event);
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      held.stopRenewing();
      await within(closeMs, Promise.all([refreshing, held.taken(), refreshAccount.ended(), steps.ended()]));
      await within(closeMs, Promise.all(held.accounts().map(held.release))).catch(() => {});
    },
  };
}

/** Refreshes accounts at the same time: one that fails or takes long must not delay the others. */
function createRefreshAccount({ held, steps, log }: { held: HeldAccounts; steps: BatchSteps; log: Log }) {
  const refreshing = new Map<string, Promise<void>>();
  return {
    begin(account: string, batches: readonly Batch[], now: number): void {
      const scheduler = held.schedulerOf(account);
      if (scheduler === undefined) return; // its lock was lost meanwhile
      for (const batch of batches) steps.advance(batch, now);
      if (refreshing.has(account)) return;
      const running = batches.filter(({ state }) => state === 'in_progress');
      const refresh = scheduler
        .refresh(running, now)
        .catch((error: unknown) => log.warn({ err: error, account }, 'batches could not be refreshed; trying again'))
        .finally(() => refreshing.delete(account));
      refreshing.set(account, refresh);
    },
    ended: () => Promise.all(refreshing.values()),
  };
}

type HeldAccounts = ReturnType<typeof holdAccounts>;

/** The accounts that this worker has locked, each with its scheduler. Renews the locks. */
function holdAccounts({
  acquireLock,
  releaseLock,
  createAccountScheduler,
  signal,
  refreshSoon,
  onRelease,
  log,
}: HoldDeps & { signal: AbortSignal; refreshSoon: () => void; onRelease: (account: string) => void; log: Log }) {
  const schedulers = new Map<string, AccountScheduler>();
  const takings = new Set<Promise<void>>();
  const renewing = repeatWhile({
    everyMs: renewEveryMs,
    work: renew,
    isNeeded: () => schedulers.size > 0,
    onFailure: (error) => log.debug({ err: error }, 'the locks of accounts could not be renewed'),
  });

  async function takeOne(account: string): Promise<void> {
    if (schedulers.has(account) || !(await acquireLock(batchLockKey(account)))) return;
    if (signal.aborted) return releaseLock(batchLockKey(account));
    if (schedulers.has(account)) return; // it was assigned twice
    renewing.begin();
    schedulers.set(account, createAccountScheduler(account, refreshSoon));
    refreshSoon();
  }

  async function release(account: string): Promise<void> {
    onRelease(account);
    const scheduler = schedulers.get(account);
    await scheduler?.stop();
    if (schedulers.get(account) === scheduler && schedulers.delete(account)) await releaseLock(batchLockKey(account));
  }

  /** Independent of refreshes, and without waiting for accounts whose lock was lost: both may take long. */
  async function renew(): Promise<void> {
    await Promise.all(
      [...schedulers.keys()].map(async (account) => {
        if (!(await acquireLock(batchLockKey(account)))) release(account).catch(() => {}); // the lock expires
      }),
    );
  }

  return {
    take(accounts: readonly string[]): void {
      if (signal.aborted) return;
      const taking = Promise.all(accounts.map(takeOne))
        .catch((error: unknown) => log.debug({ err: error }, 'assigned accounts could not be taken'))
        .then(() => void takings.delete(taking));
      takings.add(taking);
    },
    release,
    accounts: () => [...schedulers.keys()],
    schedulers: () => schedulers.values(),
    schedulerOf: (account: string) => schedulers.get(account),
    taken: () => Promise.all(takings),
    stopRenewing: renewing[Symbol.dispose],
  };
}

function shuffled<Item>(items: readonly Item[]): Item[] {
  const drawn = items.map((item) => ({ item, lot: Math.random() })).sort((one, other) => one.lot - other.lot);
  return drawn.map(({ item }) => item);
}
