import type { Batch } from '../../../shared/batches/batch.ts';
import { isRunning } from '../../../shared/batches/batch-states.ts';
import type { Release } from '../../../shared/limits/release.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { PlanFile } from '../../../shared/process/plan-file.ts';
import type { Store } from '../../../shared/store/store.ts';
import type { LineRules } from '../files/parse-line.ts';
import { batchJobOf } from '../lines/batch-job.ts';
import type { LineEvent } from '../lines/line-events.ts';
import type { LineQueue } from '../lines/line-queue.ts';
import { failedLine } from '../lines/line-results.ts';
import type { WriteResult } from '../lines/write-results.ts';
import {
  type BatchFeed,
  createBatchFeed,
  isWrong,
  type MayQueue,
  type NextLine,
  type WrongLine,
} from './batch-feed.ts';
import type { createCountBatch } from './count-batch.ts';
import { hasRoom, mayQueueFor } from './line-window.ts';
import { createModelHealth } from './model-health.ts';
import { oneAtATime } from './one-at-a-time.ts';
import type { createRecoverLostLines } from './recover-lost-lines.ts';

/** The running batches of one account, fed into the queues by the one worker that holds them. */
export interface AccountScheduler {
  /** What is to be run, as it stands in the store; whatever else was run is let go. */
  look(running: readonly Batch[], now: number): Promise<void>;
  heard(event: LineEvent): void;
  /** Lets all of it go; what is queued stays there for whoever comes next. */
  stop(): Promise<void>;
}

type Held = { batch: Batch; account: string; feed: BatchFeed };

/** A line that was not heard of for so long is looked for. */
const unheardMs = 2_000;
const pumpEveryMs = 250;
/** Of an account, the first that were handed in; each reads its own file. */
const batchesAtOnce = 32;
/** A line that could not be queued is tried again after so long. */
const unqueuedPauseMs = 1_000;
/** A file that cannot be read is tried again after a pause that grows to this. */
const failingPauseMsMax = 60_000;

export function createAccountScheduler(deps: {
  account: string;
  store: Pick<Store, 'batches' | 'files' | 'findAccount'>;
  planFile: PlanFile;
  rules: LineRules;
  queue: Pick<LineQueue, 'add'>;
  writeResult: WriteResult;
  release: Release;
  recoverLostLines: ReturnType<typeof createRecoverLostLines>;
  countBatch: ReturnType<typeof createCountBatch>;
  /** This worker's control stream, where it hears of the lines that it has queued. */
  control: () => string | undefined;
  /** Has `look` called soon. */
  lookSoon: () => void;
  log: Log;
}): AccountScheduler {
  const { account, store, planFile, rules, queue, log } = deps;
  const stopped = new AbortController();
  const held = new Map<string, Held>();
  const health = createModelHealth();
  const doubtful = new Set<string>();
  const failing = new Map<BatchFeed, { times: number; until: number }>();
  /** Something has ended since it was counted. */
  const uncounted = new Set<string>();
  let plan: { name: string; suspended: boolean } | undefined;
  const pump = oneAtATime(fill, stopped.signal);

  const inHand = () => [...held.values()].flatMap(({ feed }) => [...feed.inHand.values()]);

  async function take(batch: Batch): Promise<void> {
    const from = batch.position.line;
    const [endedLines, retries] = await Promise.all([
      store.batches.listEndedLines(batch.id, from),
      store.batches.listRetries(batch.id),
    ]);
    const feed = createBatchFeed({ batch, endedLines, retries, files: store.files, rules, health });
    held.set(batch.id, { batch, account, feed });
    uncounted.add(batch.id);
  }

  async function letGo(id: string): Promise<void> {
    const { feed } = held.get(id) ?? {};
    held.delete(id);
    uncounted.delete(id);
    if (feed === undefined) return;
    failing.delete(feed);
    await feed.close();
  }

  /** One line of each batch in turn, so that a small one handed in last does not wait for a large one. */
  async function fill(): Promise<void> {
    for (let queued = 1; queued > 0; ) {
      queued = 0;
      for (const holding of [...held.values()]) {
        if (stopped.signal.aborted || !mayHaveMore()) return;
        if ((failing.get(holding.feed)?.until ?? 0) > performance.now()) continue;
        try {
          if (await queueNext(holding)) queued++;
        } catch (error) {
          // One whose file cannot be read must not keep the others from being run.
          noteFailure(holding, error);
        }
      }
    }
  }

  function noteFailure({ batch, feed }: Held, error: unknown): void {
    const times = (failing.get(feed)?.times ?? 0) + 1;
    failing.set(feed, { times, until: performance.now() + Math.min(failingPauseMsMax, 250 * 2 ** times) });
    log.warn({ err: error, batch: batch.id }, 'lines of a batch could not be queued; trying again');
  }

  async function queueNext({ batch, feed }: Held): Promise<boolean> {
    const now = Date.now();
    const verdicts = new Map<string, ReturnType<MayQueue>>();
    const line = await feed.next(now, (model) => {
      const verdict = verdicts.get(model) ?? mayQueueFor({ inHand: inHand(), now }, model);
      verdicts.set(model, verdict);
      return verdict;
    });
    failing.delete(feed);
    if (line === undefined || held.get(batch.id)?.feed !== feed) return false;
    try {
      await (isWrong(line) ? endWrong(batch, feed, line) : enqueue(batch, feed, line));
    } catch (error) {
      // The same request again: if it was queued after all there will be one job of it, and a result is written once.
      const { number, failures, losses } = line;
      const notBefore = new Date(Date.now() + unqueuedPauseMs);
      feed.again({ batch: batch.id, line: line.line, number, failures, losses, notBefore });
      throw error;
    }
    return true;
  }

  function mayHaveMore(): boolean {
    if (plan === undefined || plan.suspended) return false;
    return hasRoom({ inHand: inHand(), atOnce: planFile.plans[plan.name]?.batchRequestsAtOnce, now: Date.now() });
  }

  async function enqueue(batch: Batch, feed: BatchFeed, line: NextLine): Promise<void> {
    const owner = { account, plan: plan?.name ?? '', tellTo: deps.control() ?? '' };
    const job = batchJobOf(batch, line, owner);
    feed.queued(line, Date.now());
    await queue.add(job);
  }

  async function endWrong({ id }: Batch, feed: BatchFeed, wrong: WrongLine): Promise<void> {
    const { line, customId, requestId, faults } = wrong;
    const message = faults.map((fault) => `${fault.param ?? 'line'}: ${fault.message}`).join('; ');
    const error = { code: 'VALIDATION_ERROR', message };
    await deps.writeResult(failedLine({ batch: id, line, customId, requestId }, error), stopped.signal);
    // An earlier taking of its job may have been put off with its lease.
    await deps.release({ account, requestId, lane: 'batch', run: 'any' });
    uncounted.add(id);
    feed.ended(line);
  }

  async function lookAfter(): Promise<void> {
    const { signal } = stopped;
    for (const { batch, feed } of held.values()) {
      const unheard = [...feed.inHand.values()].filter(
        ({ requestId, since }) => doubtful.delete(requestId) || Date.now() - since > unheardMs,
      );
      const found =
        unheard.length > 0 ? await deps.recoverLostLines({ batch, feed, plan: plan?.name ?? '' }, unheard, signal) : 0;
      if (found > 0) uncounted.add(batch.id);
    }
  }

  async function count({ batch, feed }: Held, now: number): Promise<void> {
    if (!uncounted.has(batch.id) && !feed.isDone()) return;
    uncounted.delete(batch.id);
    const counted = await deps.countBatch(batch, feed, now);
    if (counted === 'ran') deps.lookSoon();
    // It begins again from what is stored.
    if (counted === 'mistaken') await letGo(batch.id);
  }

  const pumping = setInterval(() => void pump(), pumpEveryMs);

  return {
    async look(running, now) {
      for (const id of held.keys()) if (!running.some((batch) => batch.id === id)) await letGo(id);
      if (running.length === 0) return;
      const known = await store.findAccount(account);
      plan = { name: known?.plan ?? planFile.defaultPlan, suspended: known?.suspended ?? false };
      for (const batch of running.filter(isRunning).slice(0, batchesAtOnce)) {
        const holding = held.get(batch.id);
        if (holding === undefined) await take(batch);
        else held.set(batch.id, { ...holding, batch });
      }
      await lookAfter();
      for (const holding of [...held.values()]) await count(holding, now);
      void pump();
    },

    heard(event) {
      const feed = held.get(event.batch)?.feed;
      const line = feed?.inHand.get(event.line);
      if (feed === undefined || line === undefined || line.number !== event.number) return;
      const now = Date.now();
      switch (event.type) {
        case 'started':
          feed.changed(event.line, 'started', now);
          break;
        case 'postponed':
          feed.changed(event.line, 'put off', now);
          break;
        case 'dropped':
          doubtful.add(line.requestId);
          break;
        case 'retry':
          if (event.retry.failures > line.failures) health.failed(line.model);
          feed.again(event.retry);
          break;
        case 'ended':
          feed.ended(event.line);
          uncounted.add(event.batch);
          if (event.answered) noteAnswer(line.model, now);
          if (feed.isDone()) deps.lookSoon();
      }
      void pump();
    },

    async stop() {
      stopped.abort();
      clearInterval(pumping);
      for (const id of [...held.keys()]) await letGo(id);
    },
  };

  function noteAnswer(model: string, now: number): void {
    const wasAway = health.isAway(model);
    health.answered(model);
    if (wasAway) for (const { feed } of held.values()) feed.wake(model, now);
  }
}
