import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { batchStates } from '../shared/batches/batch.ts';
import { createLimitMetrics, durationBuckets } from '../shared/process/metrics.ts';
import type { BatchStats } from '../shared/store/batches/batch-store.ts';
import type { BackendSlots } from './backends/backend-slots.ts';
import type { OutboxTotals } from './usage/observe-outboxes.ts';

export type WorkerMetrics = ReturnType<typeof createWorkerMetrics>;

const breakerValues = { closed: 0, 'half-open': 1, open: 2 };

export function createWorkerMetrics(registry: Registry) {
  const registers = [registry];
  return {
    ...createLimitMetrics(registry),
    leasesExpired: new Counter({
      name: 'svc_leases_expired_total',
      help: 'Leases that expired without being ended or renewed',
      registers,
    }),
    queueWait: new Histogram({
      name: 'svc_queue_wait_seconds',
      help: "From a request's admission to the start of its job",
      labelNames: ['pool', 'lane'],
      buckets: durationBuckets,
      registers,
    }),
    notStarted: new Counter({
      name: 'svc_jobs_not_started_total',
      help: 'Jobs that called no backend, by why: late, expired, interrupted, settled, gone or superseded',
      labelNames: ['pool', 'reason'],
      registers,
    }),
    running: new Gauge({
      name: 'svc_jobs_running',
      help: 'Jobs that this worker has in hand',
      labelNames: ['pool', 'lane'],
      registers,
    }),
    concurrency: new Gauge({
      name: 'svc_worker_concurrency',
      help: 'Max jobs of one model that this worker has in hand; for lines of batches, what requests leave of that, and no more than this',
      labelNames: ['lane'],
      registers,
    }),
    retryRounds: new Counter({
      name: 'svc_backend_retry_rounds_total',
      help: 'Requests that tried the backends of their model a second time',
      labelNames: ['model'],
      registers,
    }),
    batchLines: new Counter({
      name: 'svc_batch_lines_total',
      help: 'Lines of batches that have ended, by outcome: completed, or the code of their error',
      labelNames: ['outcome'],
      registers,
    }),
    batchLineRetries: new Counter({
      name: 'svc_batch_line_retries_total',
      help: 'Lines of batches that are to be run again, by why: failed (their backends), or lost',
      labelNames: ['reason'],
      registers,
    }),
    breakerOpened: new Counter({
      name: 'svc_backend_breaker_opened_total',
      help: 'How often the breaker of a backend and model has opened',
      labelNames: ['backend', 'model'],
      registers,
    }),
    /** Read when it is scraped. */
    observeBackends({ breakerStatuses, load, waiting }: BackendSlots): void {
      new Gauge({
        name: 'svc_backend_breaker_state',
        help: 'Of this worker: 0 closed, 1 half-open (one call finds out), 2 open (not called)',
        labelNames: ['backend', 'model'],
        registers,
        collect() {
          for (const { backend, model, breaker } of breakerStatuses())
            this.set({ backend, model }, breakerValues[breaker]);
        },
      });
      new Gauge({
        name: 'svc_backend_calls',
        help: 'Calls that this worker has in flight',
        labelNames: ['backend'],
        registers,
        collect() {
          for (const { backend, calls } of load()) this.set({ backend }, calls);
        },
      });
      new Gauge({
        name: 'svc_backend_limit',
        help: 'requests_at_once of a backend: of the whole fleet, or of each worker if it is per_worker; left out, no limit',
        labelNames: ['backend'],
        registers,
        collect() {
          for (const { backend, limit } of load()) if (limit !== undefined) this.set({ backend }, limit);
        },
      });
      new Gauge({
        name: 'svc_backend_share',
        help: 'Calls at once that this worker may have of a backend whose limit is of the whole fleet',
        labelNames: ['backend'],
        registers,
        collect() {
          for (const { backend, share } of load()) if (share !== undefined) this.set({ backend }, share);
        },
      });
      new Gauge({
        name: 'svc_jobs_waiting_for_backend',
        help: 'Jobs in hand of this worker whose backend has failed and that wait for a slot of another one',
        registers,
        collect() {
          this.set(waiting());
        },
      });
    },
    attempts: new Counter({
      name: 'svc_backend_attempts_total',
      help: 'Calls to backends by how they ended',
      labelNames: ['backend', 'model', 'outcome'],
      registers,
    }),
    attemptDuration: new Histogram({
      name: 'svc_backend_attempt_duration_seconds',
      help: 'From the call of a backend to its end',
      labelNames: ['backend', 'model'],
      buckets: durationBuckets,
      registers,
    }),
    firstToken: new Histogram({
      name: 'svc_backend_first_token_seconds',
      help: 'From the call of a backend to the first token of its stream',
      labelNames: ['backend', 'model'],
      buckets: durationBuckets,
      registers,
    }),
    /** Read when it is scraped, and left out while Redis does not answer. */
    observeLeases(count: () => Promise<number | undefined>): void {
      new Gauge({
        name: 'svc_leases_held',
        help: 'Requests that hold a lease, in the partitions that this worker looks after: the sum over all workers is all',
        registers,
        async collect() {
          const held = await count();
          this.remove(); // a gauge without a value says 0
          if (held !== undefined) this.set(held);
        },
      });
    },
    usageDrained: new Counter({
      name: 'svc_usage_records_drained_total',
      help: 'Usage records that this worker has brought to the store, repeats included',
      registers,
    }),
    usageUnreadable: new Counter({
      name: 'svc_usage_entries_unreadable_total',
      help: 'Usage events in an outbox that could not be read and were set aside; each is a fault',
      registers,
    }),
    usageDrainFailures: new Counter({
      name: 'svc_usage_drain_failures_total',
      help: 'Attempts to bring a batch of usage records to the store that failed; they are repeated',
      registers,
    }),
    /** Read when they are scraped, and left out while the store does not answer. */
    observeBatches(look: () => Promise<BatchStats | undefined>): void {
      new Gauge({
        name: 'svc_batches',
        help: 'Batches that are not cleared up yet, by state; every worker says the same',
        labelNames: ['state'],
        registers,
        async collect() {
          const stats = await look();
          this.reset();
          if (stats === undefined) return;
          for (const state of batchStates) this.set({ state }, stats.count[state] ?? 0);
        },
      });
      const observe = (name: string, help: string, value: (stats: BatchStats) => number) =>
        new Gauge({
          name,
          help,
          registers,
          async collect() {
            const stats = await look();
            this.remove(); // a gauge without a value says 0
            if (stats !== undefined) this.set(value(stats));
          },
        });
      observe(
        'svc_batch_oldest_line_age_seconds',
        'Since the oldest batch was handed in that has lines to run; 0 where there is none',
        ({ oldestAt }) => (oldestAt === undefined ? 0 : Math.max(0, (Date.now() - oldestAt.getTime()) / 1_000)),
      );
      observe(
        'svc_batch_tokens_waiting',
        'Tokens of all prompts of batches that are validating or in progress, an estimate',
        ({ tokens }) => tokens,
      );
    },
    /** Read when they are scraped, and left out while Redis does not answer. */
    observeOutboxes(look: () => Promise<OutboxTotals | undefined>): void {
      const observe = (name: string, help: string, value: (stats: OutboxTotals) => number) =>
        new Gauge({
          name,
          help,
          registers,
          async collect() {
            const stats = await look();
            this.remove(); // a gauge without a value says 0
            if (stats !== undefined) this.set(value(stats));
          },
        });
      observe(
        'svc_usage_outbox_entries',
        'Usage events in the outboxes that this worker drains',
        ({ entries }) => entries,
      );
      observe(
        'svc_usage_outbox_entries_longest',
        'Usage events in the longest outbox that this worker drains',
        ({ longest }) => longest,
      );
      observe(
        'svc_usage_outbox_age_seconds',
        'Since the oldest usage event in the outboxes that this worker drains was appended; 0 if there is none',
        ({ ageSeconds }) => ageSeconds,
      );
    },
  };
}
