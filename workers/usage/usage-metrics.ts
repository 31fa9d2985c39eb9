import { Counter, type Registry } from 'prom-client';
import { within } from '../../shared/concurrency/shutdown.ts';
import { observeGauge } from '../../shared/process/metrics.ts';
import { ifAvailable, type Redis } from '../../shared/redis/connections.ts';
import { createReadOutbox } from './outbox.ts';

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

/** Over the partitions that this worker holds: entries in total and in the longest outbox, and the age of the oldest undrained entry. */
type OutboxTotals = { entries: number; longest: number; ageSeconds: number };

/** A scrape does not wait longer for Redis. */
const readMsMax = 1_000;

/**
 * Reads the outboxes of the partitions that are held, in one round trip. Concurrent callers share one read. Undefined while Redis does
 * not answer; no further read begins before it has.
 */
export function createObserveOutboxes(
  redis: Redis,
  held: () => readonly number[],
): () => Promise<OutboxTotals | undefined> {
  const readOutbox = createReadOutbox(redis);
  let reading: Promise<OutboxTotals | undefined> | undefined;

  async function readTotals(): Promise<OutboxTotals> {
    const answers = await Promise.all(held().map((partition) => ifAvailable(redis, readOutbox(partition))));
    const all = answers.filter((answer) => answer !== undefined);
    const lengths = all.map(({ length }) => length);
    return {
      entries: lengths.reduce((sum, length) => sum + length, 0),
      longest: Math.max(0, ...lengths),
      ageSeconds: Math.max(0, ...all.map(({ waitingMs }) => waitingMs)) / 1_000,
    };
  }

  return async function observeOutboxes() {
    if (reading === undefined && redis.status !== 'ready') return undefined;
    reading ??= readTotals()
      .catch(() => undefined)
      .finally(() => {
        reading = undefined;
      });
    const shared = reading;
    return (await within(readMsMax, shared)) ? shared : undefined;
  };
}
