import { fieldsOf, parseOutboxEntry } from '../../shared/jobs/usage-outbox.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { outboxKey, outboxMarksKey, outboxUnreadableKey } from '../../shared/redis/keys.ts';
import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';
import type { UsageStore } from '../../shared/store/usage/usage-store.ts';
import { createMarkDrained } from './outbox.ts';
import type { UsageMetrics } from './usage-metrics.ts';

const entriesAtOnce = 500;

/** `upTo`: the stream id up to which the partition's outbox is in the store. `records`: how many this call has stored. */
export type DrainReport = { upTo: string; records: number; more: boolean };

/** Called with records once they are stored, and before they are marked as drained. A failure fails the call, which is then repeated. */
export type OnStored = (records: readonly UsageRecord[]) => Promise<void>;

/**
 * Writes the next entries of a partition's outbox to the store, in order, and only then marks them as drained (contract.md#n10-outbox). If
 * it is interrupted, they are read again, and the store does not count them twice.
 */
export function createDrainPartition({
  redis,
  store,
  onStored = async () => {},
  metrics,
  log,
}: {
  redis: Redis;
  store: Pick<UsageStore, 'recordUsage'>;
  onStored?: OnStored;
  metrics: Pick<UsageMetrics, 'usageDrained' | 'usageUnreadable'>;
  log: Pick<Log, 'error'>;
}): (partition: number) => Promise<DrainReport> {
  const markDrained = createMarkDrained(redis);

  /** Undefined if the entry cannot be read, because another version of this program wrote it. It must not block the next entries. */
  function read(partition: number, id: string, fields: readonly string[]): UsageRecord | undefined {
    try {
      return parseOutboxEntry(id, fieldsOf(fields));
    } catch {
      metrics.usageUnreadable.inc();
      // Only its position is logged: the parser's error may quote its content.
      log.error({ partition, entry: id }, 'a usage event cannot be read, and is set aside');
      return undefined;
    }
  }

  /** Keeps the entry as it is, for an operator. Idempotent, because its id can be added only once. */
  async function setAside(partition: number, id: string, fields: readonly string[]): Promise<void> {
    await redis.xadd(outboxUnreadableKey(partition), id, ...fields).catch((error: unknown) => {
      if (!(error instanceof Error && error.message.includes('equal or smaller'))) throw error;
    });
  }

  return async function drainPartition(partition) {
    const drained = (await redis.hget(outboxMarksKey(partition), 'drained')) ?? '0-0';
    const entries = await redis.xrange(outboxKey(partition), `(${drained}`, '+', 'COUNT', entriesAtOnce);
    const last = entries.at(-1)?.[0];
    if (last === undefined) return { upTo: drained, records: 0, more: false };

    const records: UsageRecord[] = [];
    for (const [id, fields] of entries) {
      const record = read(partition, id, fields);
      if (record !== undefined) records.push(record);
      else await setAside(partition, id, fields);
    }
    if (records.length > 0) {
      await store.recordUsage(records);
      await onStored(records);
    }
    await markDrained(partition, last);
    metrics.usageDrained.inc(records.length);
    return { upTo: last, records: records.length, more: entries.length === entriesAtOnce };
  };
}
