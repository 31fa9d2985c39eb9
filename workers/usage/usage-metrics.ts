import { Counter, type Registry } from 'prom-client';
import { observeGauge } from '../../shared/process/observe-gauge.ts';
import type { OutboxTotals } from './observe-outboxes.ts';

export type UsageMetrics = ReturnType<typeof createUsageMetrics>;

export function createUsageMetrics(registry: Registry) {
  const registers = [registry];
  return {
    usageDrained: new Counter({
      name: 'svc_usage_records_drained_total',
      help: 'Usage records that this worker has written to the store, including repeats',
      registers,
    }),
    usageUnreadable: new Counter({
      name: 'svc_usage_entries_unreadable_total',
      help: 'Usage events in an outbox that could not be read and were set aside; each one is a bug',
      registers,
    }),
    usageDrainFailures: new Counter({
      name: 'svc_usage_drain_failures_total',
      help: 'Failed attempts to write a batch of usage records to the store; they are retried',
      registers,
    }),
    /** `look` is called at each scrape, once for each gauge; undefined while Redis does not answer. */
    observeOutboxes(look: () => Promise<OutboxTotals | undefined>): void {
      const observe = (name: string, help: string, value: (totals: OutboxTotals) => number) =>
        observeGauge(registry, { name, help, read: () => look().then((totals) => totals && value(totals)) });
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
        'Age of the oldest usage event in the outboxes that this worker drains; 0 if there is none',
        ({ ageSeconds }) => ageSeconds,
      );
    },
  };
}
