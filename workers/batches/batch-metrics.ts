import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { batchStates } from '../../shared/batches/batch.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import { endpoints } from '../../shared/endpoints/endpoints.ts';
import { observeGauge, startAtZero } from '../../shared/process/metrics.ts';
import type { BatchStats } from '../../shared/store/records/batch-records.ts';
import type { BatchStore } from '../../shared/store/records/batch-store.ts';
import { pauseReasons } from './lines/finish-line-attempt.ts';

export type BatchMetrics = ReturnType<typeof createBatchMetrics>;

/** Buckets in seconds, from a few lines on an idle model to the window of 24 hours. */
const batchBuckets = [5, 15, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 64_800, 86_400];

const batchEndpoints = endpoints.filter(({ inBatches }) => inBatches).map(({ path }) => path);

export function createBatchMetrics(registry: Registry) {
  const registers = [registry];
  return {
    batchLines: new Counter({
      name: 'svc_batch_lines_total',
      help: 'Lines of batches that have ended, by outcome: completed, or their error code',
      labelNames: ['endpoint', 'outcome'],
      registers,
    }),
    batchLineRetries: startAtZero(
      new Counter({
        name: 'svc_batch_line_retries_total',
        help: 'Retries of lines of batches, by reason: failed (their backends failed), or lost',
        labelNames: ['endpoint', 'reason'],
        registers,
      }),
      batchEndpoints.flatMap((endpoint) => ['failed', 'lost'].map((reason) => ({ endpoint, reason }))),
    ),
    batchLinePauses: startAtZero(
      new Counter({
        name: 'svc_batch_line_pauses_total',
        help: 'Times that a line of a batch was taken from its queue but had to run later, by reason',
        labelNames: ['reason'],
        registers,
      }),
      pauseReasons.map((reason) => ({ reason })),
    ),
    batchDuration: new Histogram({
      name: 'svc_batch_duration_seconds',
      help: 'Time from the creation of a batch to its end, by its final state',
      labelNames: ['state'],
      buckets: batchBuckets,
      registers,
    }),
    /** `look` is called at each scrape, once for each gauge; undefined while the store does not answer. */
    observeBatches(look: () => Promise<BatchStats | undefined>): void {
      observeStates(registry, look);
      const observe = (name: string, help: string, value: (stats: BatchStats) => number) =>
        observeGauge(registry, { name, help, read: () => look().then((stats) => stats && value(stats)) });
      observe(
        'svc_batch_oldest_line_age_seconds',
        'Time since the oldest batch that still has lines to run was created; 0 if there is none',
        ({ oldestAt }) => (oldestAt === undefined ? 0 : Math.max(0, (Date.now() - oldestAt.getTime()) / 1_000)),
      );
      observe(
        'svc_batch_tokens_waiting',
        'Estimated prompt tokens of all batches that are validating or in progress',
        ({ tokens }) => tokens,
      );
    },
  };
}

function observeStates(registry: Registry, look: () => Promise<BatchStats | undefined>): void {
  new Gauge({
    name: 'svc_batches',
    help: 'Batches that are not yet cleaned up, by state. Every worker reports the same value',
    labelNames: ['state'],
    registers: [registry],
    async collect() {
      const stats = await look();
      this.reset();
      if (stats === undefined) return;
      for (const state of batchStates) this.set({ state }, stats.count[state] ?? 0);
    },
  });
}

/** Limits the load of many workers' scrapes on the store. */
const keptMs = 5_000;
/** The longest that a scrape waits for the store. */
const waitMs = 1_000;

/** Reads statistics of all batches, at most a few seconds old. Undefined while the store does not answer. */
export function createObserveBatches(
  store: Pick<BatchStore, 'describeBatches'>,
  now: () => number = () => performance.now(),
): () => Promise<BatchStats | undefined> {
  let latest: { at: number; stats: Promise<BatchStats | undefined> } | undefined;
  return async function observeBatches() {
    if (latest === undefined || now() - latest.at >= keptMs) {
      latest = { at: now(), stats: store.describeBatches().catch(() => undefined) };
    }
    const { stats } = latest;
    return (await within(waitMs, stats)) ? stats : undefined;
  };
}
