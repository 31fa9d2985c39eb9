import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { createLimitMetrics, durationBuckets } from '../shared/metrics.ts';
import type { OutboxesStanding } from './usage/observe-outboxes.ts';

export type WorkerMetrics = ReturnType<typeof createWorkerMetrics>;

export function createWorkerMetrics(registry: Registry) {
  const registers = [registry];
  return {
    ...createLimitMetrics(registry),
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
      labelNames: ['pool'],
      registers,
    }),
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
    /** Read when they are scraped, and left out while Redis does not answer. */
    observeOutboxes(look: () => Promise<OutboxesStanding | undefined>): void {
      const observe = (name: string, help: string, value: (standing: OutboxesStanding) => number) =>
        new Gauge({
          name,
          help,
          registers,
          async collect() {
            const standing = await look();
            this.remove(); // a gauge without a value says 0
            if (standing !== undefined) this.set(value(standing));
          },
        });
      observe('svc_usage_outbox_entries', 'Usage events in the outboxes of all partitions', ({ entries }) => entries);
      observe('svc_usage_outbox_entries_longest', 'Usage events in the longest outbox', ({ longest }) => longest);
      observe(
        'svc_usage_outbox_age_seconds',
        'Since the oldest usage event that is not in the store yet was appended; 0 where there is none',
        ({ ageSeconds }) => ageSeconds,
      );
    },
  };
}
