import type { Batch } from '../../shared/batches/batch.ts';
import { isNext, nextBatch } from '../../shared/batches/batch-states.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { BatchStore } from '../../shared/store/records/batch-store.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { createBackoff } from '../upkeep/backoff.ts';
import {
  type AccountAction,
  type AccountEvent,
  type CountOutcome,
  initialAccountState,
  reduceAccount,
} from './account-state.ts';
import { type BatchFeed, createBatchFeed } from './files/batch-feed.ts';
import type { ReadAhead } from './files/ordered-lines.ts';
import type { LineRules } from './files/parse-line.ts';
import type { LineEvent } from './lines/line-events.ts';
import { createQueueLines } from './queue-lines.ts';
import type { createRecoverLostLines } from './recover-lost-lines.ts';
import { createResultTally, type ResultTally } from './tally-results.ts';

const pumpEveryMs = 250;
/** The pauses of a batch whose file cannot be read, without jitter. */
const failing = { firstMs: 500, maxMs: 60_000, random: () => 1 };

type QueueDeps = Parameters<typeof createQueueLines>[0];

type Deps = Omit<QueueDeps, 'state' | 'dispatch' | 'feeds' | 'backoff' | 'signal' | 'currentPlanFile'> & {
  store: Pick<Store, 'batches' | 'files' | 'accounts'>;
  currentPlanFile: () => Pick<PlanFile, 'plans' | 'defaultPlan'>;
  rules: () => LineRules;
  readAhead: ReadAhead;
  recoverLostLines: ReturnType<typeof createRecoverLostLines>;
  /** Requests a call of `refresh` soon. */
  refreshSoon: () => void;
};

/** Performs what the reducer decides (account-state.ts), and queues lines when there may be room. */
export function createAccountScheduler(deps: Deps) {
  const { account, store, currentPlanFile } = deps;
  const stopped = new AbortController();
  const { signal } = stopped;
  const feeds = new Map<string, BatchFeed>();
  const backoff = createBackoff<string>(failing);
  let state = initialAccountState;
  const own = { state: () => state, dispatch, feeds, backoff, signal };
  const perform = createPerform({ ...deps, ...own });
  const pump = oneAtATime(createQueueLines({ ...deps, ...own }), signal);
  const pumping = setInterval(() => void pump(), pumpEveryMs);

  /** Does not wait before actions on feeds: until they are performed, feeds and state differ. */
  async function dispatch(event: AccountEvent): Promise<void> {
    const next = reduceAccount(state, event);
    state = next.state;
    for (const action of next.actions) {
      const performing = perform(action);
      if (performing !== undefined) await performing;
    }
  }

  return {
    /** `running` are the account's batches that are in progress in the store. Any other batch is closed. */
    async refresh(listed: readonly Batch[], now: number): Promise<void> {
      await dispatch({ type: 'listed', running: listed });
      if (listed.length === 0) return;
      const known = await store.accounts.findAccount(account);
      const plan = { name: known?.plan ?? currentPlanFile().defaultPlan, suspended: known?.suspended ?? false };
      await dispatch({ type: 'account read', plan, running: listed });
      for (const batch of [...state.batches.keys()]) await dispatch({ type: 'check lines', batch, now: Date.now() });
      for (const batch of [...state.batches.keys()]) {
        await dispatch({ type: 'check count', batch, isDone: feeds.get(batch)?.isDone() === true, now });
      }
      void pump();
    },

    receive(event: LineEvent): void {
      const before = state;
      void dispatch({ type: 'line', event, now: Date.now() });
      // Every scheduler of the worker receives every event: only the one that it concerns has work.
      if (state !== before) void pump();
    },

    /** Closes all batches. Lines that are queued stay in the queue, for the next worker. */
    async stop(): Promise<void> {
      stopped.abort();
      clearInterval(pumping);
      await dispatch({ type: 'listed', running: [] });
    },
  };
}

/** Queues the lines of one account's running batches, for the one worker that holds the account. */
export type AccountScheduler = ReturnType<typeof createAccountScheduler>;

/** Performs one action. Returns a promise only if the action takes time. */
function createPerform(
  deps: Pick<Deps, 'store' | 'rules' | 'readAhead' | 'recoverLostLines' | 'refreshSoon'> &
    Pick<QueueDeps, 'state' | 'dispatch' | 'backoff' | 'signal'> & { feeds: Map<string, BatchFeed> },
) {
  const { store, rules, readAhead, state, dispatch, feeds, backoff, signal } = deps;
  const tallies = new Map<string, ResultTally>();

  return function perform(action: AccountAction): Promise<void> | undefined {
    switch (action.do) {
      case 'open':
        return open(action.batch);
      case 'close':
        return close(action.batch);
      case 'recover lines':
        return recover(action);
      case 'count':
        return count(action.batch, action.now);
      case 'refresh soon':
        deps.refreshSoon();
        return undefined;
      case 'refresh if done':
        if (feeds.get(action.batch)?.isDone()) deps.refreshSoon();
        return undefined;
      default:
        changeFeeds(feeds, action);
        return undefined;
    }
  };

  async function open(batch: Batch): Promise<void> {
    const [endedLines, retries] = await Promise.all([
      store.batches.listEndedLines(batch.id, batch.position.line),
      store.batches.listRetries(batch.id),
    ]);
    feeds.set(batch.id, createBatchFeed({ batch, endedLines, retries, files: store.files, rules, readAhead }));
    tallies.set(batch.id, createResultTally({ store: store.batches, batch }));
    await dispatch({ type: 'opened', batch });
  }

  async function close(id: string): Promise<void> {
    const feed = feeds.get(id);
    feeds.delete(id);
    tallies.delete(id);
    backoff.succeeded(id);
    await feed?.close();
  }

  async function recover({ batch, plan, lines }: Extract<AccountAction, { do: 'recover lines' }>): Promise<void> {
    await deps.recoverLostLines(
      { batch, plan, lines },
      {
        signal,
        isCurrent: ({ line, number, state: was, since }) => {
          const held = state().batches.get(batch.id)?.lines.get(line);
          return held?.number === number && held.state === was && held.since === since;
        },
        onRecovered: (line, retry) => void dispatch({ type: 'recovered', batch: batch.id, line, retry }),
      },
    );
  }

  async function count(batch: Batch, now: number): Promise<void> {
    const [feed, tally] = [feeds.get(batch.id), tallies.get(batch.id)];
    if (feed === undefined || tally === undefined) return;
    const counted = await countBatch(store.batches, { batch, feed, tally, now });
    await dispatch({ type: 'counted', batch: batch.id, counted });
  }
}

type FeedAction = Extract<AccountAction, { do: 'retry line' | 'end line' | 'wake' }>;

function changeFeeds(feeds: ReadonlyMap<string, BatchFeed>, action: FeedAction): void {
  switch (action.do) {
    case 'retry line':
      feeds.get(action.batch)?.retry(action.retry);
      break;
    case 'end line':
      feeds.get(action.batch)?.ended(action.line);
      break;
    case 'wake':
      for (const feed of feeds.values()) feed.wake(action.model, action.now);
  }
}

/**
 * Returns a function that requests the work, which never runs twice at the same time. If the work is requested while it runs, it runs once
 * more afterwards. None starts after `signal` is aborted. Failures of the work reject the request that started it.
 */
export function oneAtATime(work: () => Promise<void>, signal: AbortSignal): () => Promise<void> {
  let isWorking = false;
  let isRequested = false;

  return async function request(): Promise<void> {
    isRequested = true;
    if (isWorking) return;
    isWorking = true;
    try {
      while (isRequested && !signal.aborted) {
        isRequested = false;
        await work();
      }
    } finally {
      isWorking = false;
    }
  };
}

type BatchCount = {
  batch: Batch;
  feed: Pick<BatchFeed, 'isDone' | 'position' | 'takeEnded'>;
  tally: ResultTally;
  now: number;
};

/**
 * Counts the results of a batch, and writes the counts and its progress if they have grown. A batch whose lines all have a result has run.
 */
async function countBatch(
  store: Pick<BatchStore, 'countResults' | 'changeBatch'>,
  { batch, feed, tally, now }: BatchCount,
): Promise<CountOutcome> {
  const { id, counts } = batch;
  const isFed = feed.isDone();
  tally.ended(feed.takeEnded());
  const { completed, failed } = await store.countResults(id);
  const hasRun = isFed && completed + failed >= counts.total;
  if (isFed && !hasRun) return 'mistaken';
  if (!hasRun && completed + failed <= counts.completed + counts.failed) return 'running';
  const at = new Date(now);
  const position = feed.position();
  const progress = await tally.step({ results: completed + failed, position: position.line, at });
  const isStored = await store.changeBatch(id, (found) => {
    const counted = found && nextBatch(found, { type: 'counted', completed, failed, position, progress }, at);
    const next = hasRun && counted ? nextBatch(counted, { type: 'ran' }, at) : counted;
    return { result: counted !== undefined && isNext(found ?? {}, progress), ...(next && { next }) };
  });
  if (isStored) tally.stored(progress);
  return hasRun ? 'ran' : 'running';
}
