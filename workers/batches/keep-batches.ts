import { setTimeout as sleep } from 'node:timers/promises';
import type { Batch } from '../../shared/batches/batch.ts';
import { type BatchEvent, isOver, nextBatch } from '../../shared/batches/batch-states.ts';
import type { Log } from '../../shared/log.ts';
import { batchKeeperKey } from '../../shared/redis-keys.ts';
import { repeatWhile } from '../../shared/repeat-while.ts';
import { within } from '../../shared/shutdown.ts';
import type { BatchStore } from '../../shared/store/batch-store.ts';
import type { Hold } from '../holds/hold.ts';
import type { Leave } from '../holds/leave.ts';
import type { createClearBatch } from './clear-batch.ts';
import type { createCloseBatch } from './close-batch.ts';
import type { LineNews } from './line-news.ts';
import type { AccountRun } from './run-account.ts';
import type { createValidateBatch } from './validate-batch.ts';
import type { createWriteBatchFiles } from './write-batch-files.ts';

/** The batches that this worker looks after: those of the accounts that it holds. */
export interface BatchKeeper extends AsyncDisposable {
  /** Of a line that it has queued. */
  heard(news: LineNews): void;
}

type Parts = {
  store: Pick<BatchStore, 'listOpenAccounts' | 'listOpenBatches' | 'changeBatch'>;
  hold: Hold;
  leave: Leave;
  /** `lookSoon` has the account looked at soon. */
  createAccountRun: (account: string, lookSoon: () => void) => AccountRun;
  validateBatch: ReturnType<typeof createValidateBatch>;
  closeBatch: ReturnType<typeof createCloseBatch>;
  writeBatchFiles: ReturnType<typeof createWriteBatchFiles>;
  clearBatch: ReturnType<typeof createClearBatch>;
  /** Redis's time, in milliseconds. */
  now: () => Promise<number>;
  log: Log;
  lookEveryMs?: number;
  /** Between two looks; ends early, without a failure, when the signal is aborted. */
  pause?: (ms: number, signal: AbortSignal) => Promise<void>;
};

/** Accounts that are taken at a look: few, so that workers that look at once get about as many. */
const takenAtOnce = 16;
/** Files are large, and reading one is work for the whole process; what is cancelled does not wait for those. */
const validationsAtOnce = 2;
const closingsAtOnce = 4;
/** A step that has failed is tried again after a pause that grows to this, and others are tried meanwhile. */
const failedPauseMsMax = 60_000;
/** With many batches each look is work for the store: a pause of so long for each of them. */
const pausePerBatchMs = 1;
/** Well below the time for which an account is held. */
const pauseMsMax = 2_000;
/** Several times before a hold ends. */
const renewEveryMs = 1_500;
/** For a Redis or a store that does not answer: whatever is held ends by itself. */
const closeMs = 500;

type Step = Pick<Batch, 'account' | 'state'> & { controller: AbortController; taking: Promise<void> };

/**
 * Brings every batch from one state to the next. What a step decides is written by a guarded update, so that of two workers that
 * look after one account for a while one has its way; what the other does in vain it finds out by what is stored.
 */
export function keepBatches(parts: Parts): BatchKeeper {
  const { store, hold, leave, log, lookEveryMs = 500, pause = pauseFor } = parts;
  const closing = new AbortController();
  const { signal } = closing;
  const accounts = new Map<string, AccountRun>();
  const steps = new Map<string, Step>();
  const failed = new Map<string, { times: number; until: number }>();
  const looks = new Map<string, Promise<void>>();
  let nudge = Promise.withResolvers<void>();
  const renewing = repeatWhile({
    everyMs: renewEveryMs,
    work: renew,
    isNeeded: () => accounts.size > 0,
    onFailure: (error) => log.debug({ err: error }, 'it is not known whether accounts are still held'),
  });

  /** Says how many batches there are. */
  async function look(): Promise<number> {
    const open = await store.listOpenBatches(await store.listOpenAccounts());
    if (open.length === 0 && accounts.size === 0 && failed.size === 0) return 0;
    const now = await parts.now();
    const byAccount = Map.groupBy(open, ({ account }) => account);
    for (const account of accounts.keys()) if (!byAccount.has(account)) await letGo(account);
    const ids = new Set(open.map(({ id }) => id));
    for (const id of failed.keys()) if (!ids.has(id)) failed.delete(id);
    await takeSome([...byAccount.keys()].filter((account) => !accounts.has(account)));
    for (const [account, run] of shuffled([...accounts])) lookAt(account, run, byAccount.get(account) ?? [], now);
    return open.length;
  }

  /** One that fails, or takes long, must not keep the others from being looked at. */
  function lookAt(account: string, run: AccountRun, batches: readonly Batch[], now: number): void {
    for (const batch of batches) advance(batch, now);
    if (looks.has(account)) return;
    const running = batches.filter(({ state }) => state === 'in_progress');
    const looking = run
      .look(running, now)
      .catch((error: unknown) => log.warn({ err: error, account }, 'batches were not looked after; trying again'))
      .finally(() => looks.delete(account));
    looks.set(account, looking);
  }

  async function takeSome(free: string[]): Promise<void> {
    let taken = 0;
    for (const account of shuffled(free)) {
      if (taken === takenAtOnce || signal.aborted) return;
      if (!(await hold(batchKeeperKey(account)))) continue;
      renewing.begin();
      accounts.set(
        account,
        parts.createAccountRun(account, () => nudge.resolve()),
      );
      taken++;
    }
  }

  async function letGo(account: string): Promise<void> {
    for (const step of steps.values())
      if (step.account === account) step.controller.abort(new Error('it is held no more'));
    const run = accounts.get(account);
    await run?.stop();
    if (accounts.get(account) === run && accounts.delete(account)) await leave(batchKeeperKey(account));
  }

  /** Takes the step that this batch's state asks for, unless it is being taken; one for a state that has passed ends. */
  function advance(batch: Batch, now: number): void {
    const current = steps.get(batch.id);
    if (current !== undefined) {
      if (current.state !== batch.state) current.controller.abort(new Error('the batch has moved'));
      return;
    }
    if (!hasRoomFor(batch) || (failed.get(batch.id)?.until ?? 0) > performance.now()) return;
    const controller = new AbortController();
    const step = stepOf(batch, now, AbortSignal.any([signal, controller.signal]));
    if (step === undefined) return;
    const taking = step()
      .then((event) => {
        failed.delete(batch.id);
        return event;
      })
      .then((event) => (event === undefined ? undefined : move(batch, event)))
      .catch((error: unknown) => {
        if (signal.aborted || controller.signal.aborted) return;
        noteFailure(batch.id);
        log.warn({ err: error, batch: batch.id }, 'a batch could not go on; trying again');
      })
      .finally(() => steps.delete(batch.id));
    steps.set(batch.id, { account: batch.account, state: batch.state, controller, taking });
  }

  /** One validation of an account at a time: it may hand in many, and others wait. */
  function hasRoomFor({ account, state }: Batch): boolean {
    const taken = [...steps.values()];
    const validations = taken.filter((step) => step.state === 'validating');
    if (state === 'validating') {
      return validations.length < validationsAtOnce && validations.every((step) => step.account !== account);
    }
    const alike = taken.filter(
      (step) => isClosing(step) === isClosing({ state }) && isOver(step) === isOver({ state }),
    );
    return state === 'in_progress' || alike.length < closingsAtOnce;
  }

  function noteFailure(id: string): void {
    const times = (failed.get(id)?.times ?? 0) + 1;
    failed.set(id, { times, until: performance.now() + Math.min(failedPauseMsMax, 500 * 2 ** times) });
  }

  function stepOf(batch: Batch, now: number, signal: AbortSignal): (() => Promise<BatchEvent | undefined>) | undefined {
    const isLate = batch.expiresAt.getTime() <= now;
    if (isLate && (batch.state === 'validating' || batch.state === 'in_progress'))
      return async () => ({ type: 'expire' });
    if (batch.state === 'validating') return () => parts.validateBatch(batch, signal);
    if (batch.state === 'in_progress') return undefined;
    if (isOver(batch)) {
      return async () => ((await parts.clearBatch(batch, signal)) ? { type: 'cleared' } : undefined);
    }
    return async () => {
      await parts.closeBatch(batch, { now, signal });
      return parts.writeBatchFiles(batch, { now, signal });
    };
  }

  async function move({ id, account }: Batch, event: BatchEvent): Promise<void> {
    const now = await parts.now();
    const state = await store.changeBatch(id, (found) => {
      const next = found && nextBatch(found, event, new Date(now));
      return { result: next?.state, ...(next && { next }) };
    });
    if (state === undefined) return;
    if (event.type !== 'cleared') log.info({ batch: id, account, state, event: event.type }, 'a batch has moved');
    nudge.resolve();
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
        if (!(await hold(batchKeeperKey(account)))) letGo(account).catch(() => {}); // its hold ends by itself
      }),
    );
  }

  const looking = keepLooking();

  return {
    heard(news) {
      for (const run of accounts.values()) run.heard(news);
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      renewing[Symbol.dispose]();
      await within(
        closeMs,
        Promise.all([looking, ...looks.values(), ...[...steps.values()].map(({ taking }) => taking)]),
      );
      await within(closeMs, Promise.all([...accounts.keys()].map(letGo))).catch(() => {});
    },
  };
}

function pauseFor(ms: number, signal: AbortSignal): Promise<void> {
  return sleep(ms, undefined, { signal }).catch(() => {});
}

function isClosing({ state }: Pick<Batch, 'state'>): boolean {
  return state === 'cancelling' || state === 'finalizing';
}

function shuffled<Item>(items: readonly Item[]): Item[] {
  const drawn = items.map((item) => ({ item, lot: Math.random() })).sort((one, other) => one.lot - other.lot);
  return drawn.map(({ item }) => item);
}
