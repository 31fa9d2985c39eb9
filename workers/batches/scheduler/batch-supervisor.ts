import { setTimeout as sleep } from 'node:timers/promises';
import type { Batch } from '../../../shared/batches/batch.ts';
import { repeatWhile } from '../../../shared/process/repeat-while.ts';
import { within } from '../../../shared/process/shutdown.ts';
import { batchLockKey } from '../../../shared/redis/keys.ts';
import type { BatchStore } from '../../../shared/store/batches/batch-store.ts';
import type { AcquireLock } from '../../locks/acquire.ts';
import type { ReleaseLock } from '../../locks/release.ts';
import type { LineEvent } from '../lines/line-events.ts';
import type { AccountScheduler } from './account-scheduler.ts';
import { createBatchSteps, type StepParts } from './batch-steps.ts';

/** The batches that this worker looks after: those of the accounts that it holds. */
export interface BatchSupervisor extends AsyncDisposable {
  /** Looks after the batches of these accounts, too, if no other worker holds them. */
  take(accounts: readonly string[]): void;
  /** Of a line that it has queued. */
  heard(event: LineEvent): void;
}

/** With many batches each look is work for the store: a pause of so long for each of them. */
const pausePerBatchMs = 1;
/** Well below the time for which an account is held. */
const pauseMsMax = 2_000;
/** Several times before a hold ends. */
const renewEveryMs = 1_500;
/** For a Redis or a store that does not answer: whatever is held ends by itself. */
const closeMs = 500;

/** Looks after the batches of the accounts that this worker holds: takes their steps, and has their lines run. */
export function superviseBatches(
  deps: StepParts & {
    store: Pick<BatchStore, 'listOpenBatches' | 'changeBatch'>;
    acquireLock: AcquireLock;
    releaseLock: ReleaseLock;
    /** `lookSoon` has the account looked at soon. */
    createAccountRun: (account: string, lookSoon: () => void) => AccountScheduler;
    lookEveryMs?: number;
    /** Between two looks; ends early, without a failure, when the signal is aborted. */
    pause?: (ms: number, signal: AbortSignal) => Promise<void>;
  },
): BatchSupervisor {
  const { store, acquireLock, releaseLock, log, lookEveryMs = 500, pause = pauseFor } = deps;
  const closing = new AbortController();
  const { signal } = closing;
  const accounts = new Map<string, AccountScheduler>();
  const looks = new Map<string, Promise<void>>();
  const takings = new Set<Promise<void>>();
  let nudge = Promise.withResolvers<void>();
  const steps = createBatchSteps({ ...deps, signal, onMoved: () => nudge.resolve() });
  const renewing = repeatWhile({
    everyMs: renewEveryMs,
    work: renew,
    isNeeded: () => accounts.size > 0,
    onFailure: (error) => log.debug({ err: error }, 'it is not known whether accounts are still held'),
  });

  /** Says how many batches there are. */
  async function look(): Promise<number> {
    const held = [...accounts.keys()];
    const open = held.length === 0 ? [] : await store.listOpenBatches(held);
    steps.forgetOthers(new Set(open.map(({ id }) => id)));
    if (held.length === 0) return 0;
    const now = await deps.now();
    const byAccount = Map.groupBy(open, ({ account }) => account);
    for (const account of held) if (!byAccount.has(account)) await letGo(account);
    for (const [account, batches] of shuffled([...byAccount])) lookAt(account, batches, now);
    return open.length;
  }

  /** One that fails, or takes long, must not keep the others from being looked at. */
  function lookAt(account: string, batches: readonly Batch[], now: number): void {
    const run = accounts.get(account);
    if (run === undefined) return; // it was lost meanwhile
    for (const batch of batches) steps.advance(batch, now);
    if (looks.has(account)) return;
    const running = batches.filter(({ state }) => state === 'in_progress');
    const looking = run
      .look(running, now)
      .catch((error: unknown) => log.warn({ err: error, account }, 'batches were not looked after; trying again'))
      .finally(() => looks.delete(account));
    looks.set(account, looking);
  }

  async function takeOne(account: string): Promise<void> {
    if (accounts.has(account) || !(await acquireLock(batchLockKey(account)))) return;
    if (signal.aborted) return releaseLock(batchLockKey(account));
    if (accounts.has(account)) return; // it was assigned twice
    renewing.begin();
    accounts.set(
      account,
      deps.createAccountRun(account, () => nudge.resolve()),
    );
    nudge.resolve();
  }

  async function letGo(account: string): Promise<void> {
    steps.stop(account);
    const run = accounts.get(account);
    await run?.stop();
    if (accounts.get(account) === run && accounts.delete(account)) await releaseLock(batchLockKey(account));
  }

  async function keepLooking(): Promise<void> {
    while (!signal.aborted) {
      nudge = Promise.withResolvers<void>();
      const open = await look().catch((error: unknown) => {
        if (!signal.aborted) log.warn({ err: error }, 'it is not known which batches there are; trying again');
        return 0;
      });
      const restMs = open === 0 ? 2 * lookEveryMs : lookEveryMs + open * pausePerBatchMs;
      const pauseMs = Math.min(pauseMsMax, restMs) * (0.75 + Math.random() / 2);
      await Promise.race([pause(pauseMs, signal), nudge.promise]);
    }
  }

  /** Apart from looking, and without waiting for those that are let go: both may take long. */
  async function renew(): Promise<void> {
    await Promise.all(
      [...accounts.keys()].map(async (account) => {
        if (!(await acquireLock(batchLockKey(account)))) letGo(account).catch(() => {}); // its hold ends by itself
      }),
    );
  }

  const looking = keepLooking();

  return {
    take(assigned) {
      if (signal.aborted) return;
      const taking = Promise.all(assigned.map(takeOne))
        .catch((error: unknown) => log.debug({ err: error }, 'accounts that were assigned were not taken'))
        .then(() => void takings.delete(taking));
      takings.add(taking);
    },
    heard(event) {
      for (const run of accounts.values()) run.heard(event);
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      renewing[Symbol.dispose]();
      await within(closeMs, Promise.all([looking, ...takings, ...looks.values(), steps.ended()]));
      await within(closeMs, Promise.all([...accounts.keys()].map(letGo))).catch(() => {});
    },
  };
}

function pauseFor(ms: number, signal: AbortSignal): Promise<void> {
  return sleep(ms, undefined, { signal }).catch(() => {});
}

function shuffled<Item>(items: readonly Item[]): Item[] {
  const drawn = items.map((item) => ({ item, lot: Math.random() })).sort((one, other) => one.lot - other.lot);
  return drawn.map(({ item }) => item);
}
