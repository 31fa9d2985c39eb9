import { ApiError } from '../../shared/errors.ts';
import { fieldsOf, parseOutboxEntry, parseRefusals } from '../../shared/jobs/usage-outbox.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { outboxKey, outboxMarksKey, outboxUnreadableKey } from '../../shared/redis/keys.ts';
import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';
import type { UsageStore } from '../../shared/store/usage/usage-store.ts';
import type { Refusals } from '../../shared/store/usage/usage-tables.ts';
import type { Backoff } from '../upkeep/backoff.ts';
import { createMarkDrained, type TrimOutbox, type TrimSchedule } from './outbox.ts';
import type { UsageMetrics } from './usage-metrics.ts';

const entriesAtOnce = 500;

/** `upTo`: the stream id up to which the partition's outbox is in the store. `records`: how many this call has stored. */
export type DrainReport = { upTo: string; records: number; more: boolean };

type Entry = { record: UsageRecord } | { refusals: Refusals[] };

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
  store: Pick<UsageStore, 'recordUsage' | 'recordRefusals'>;
  onStored?: OnStored;
  metrics: Pick<UsageMetrics, 'usageDrained' | 'usageUnreadable'>;
  log: Pick<Log, 'error'>;
}): (partition: number) => Promise<DrainReport> {
  const markDrained = createMarkDrained(redis);

  /** Undefined if the entry cannot be read, because another version of this program wrote it. It must not block the next entries. */
  function read(partition: number, id: string, entry: readonly string[]): Entry | undefined {
    try {
      const fields = fieldsOf(entry);
      const refusals = parseRefusals(id, fields);
      return refusals === undefined ? { record: parseOutboxEntry(id, fields) } : { refusals };
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
    const refusals: Refusals[] = [];
    for (const [id, fields] of entries) {
      const found = read(partition, id, fields);
      if (found === undefined) await setAside(partition, id, fields);
      else if ('record' in found) records.push(found.record);
      else refusals.push(...found.refusals);
    }
    if (refusals.length > 0) await store.recordRefusals(refusals);
    if (records.length > 0) {
      await store.recordUsage(records);
      await onStored(records);
    }
    await markDrained(partition, last);
    metrics.usageDrained.inc(records.length);
    return { upTo: last, records: records.length, more: entries.length === entriesAtOnce };
  };
}

/** Concurrent calls of the store, so that a slow call or a large repair does not delay all other partitions. */
const partitionsAtOnce = 4;

/** Partitions to drain again: `more` at once, `failed` (or skipped because of a backoff) after a pause. */
type Remainder = { more: readonly number[]; failed: readonly number[] };

/**
 * Drains a batch of each of these partitions, and trims what is due. If the store is unavailable, all partitions back off. Any other
 * failure delays only its own partition.
 */
export function createDrainHeld(deps: {
  drainPartition: (partition: number) => Promise<DrainReport>;
  trimOutbox: TrimOutbox;
  schedule: TrimSchedule;
  backoff: Backoff<number | 'the store'>;
  metrics: Pick<UsageMetrics, 'usageDrainFailures'>;
  log: Pick<Log, 'info' | 'warn' | 'error'>;
}): (partitions: readonly number[], signal: AbortSignal) => Promise<Remainder> {
  const { drainPartition, trimOutbox, schedule, backoff, metrics, log } = deps;

  /** True if there is more to drain. */
  async function drain(partition: number): Promise<boolean> {
    const { upTo, records, more } = await drainPartition(partition);
    if (records > 0 && backoff.succeeded('the store')) log.info({}, 'the store is available again; usage is drained');
    await trimDrained(partition, upTo);
    backoff.succeeded(partition);
    return more;
  }

  async function trimDrained(partition: number, upTo: string): Promise<void> {
    schedule.note(partition, upTo);
    const due = schedule.due(partition);
    if (due !== undefined) {
      await trimOutbox(partition, due);
      schedule.trimmed(partition);
    }
  }

  async function attempt(partition: number): Promise<'more' | 'done' | 'failed'> {
    if (backoff.waits('the store') || backoff.waits(partition)) return 'failed';
    try {
      return (await drain(partition)) ? 'more' : 'done';
    } catch (error) {
      metrics.usageDrainFailures.inc();
      if (error instanceof ApiError && error.code === 'SERVICE_UNAVAILABLE') {
        if (backoff.failed('the store'))
          log.warn({ err: error }, 'the store is unavailable; usage waits in the outbox');
      } else if (backoff.failed(partition)) {
        log.error({ err: error, partition }, 'usage of a partition cannot be drained; trying again');
      }
      return 'failed';
    }
  }

  return async function drainHeld(partitions, signal) {
    const waiting = [...partitions];
    const ended = new Map<number, 'more' | 'done' | 'failed'>();
    const drainOneByOne = async () => {
      for (let next = waiting.pop(); next !== undefined && !signal.aborted; next = waiting.pop()) {
        ended.set(next, await attempt(next));
      }
    };
    await Promise.all(Array.from({ length: partitionsAtOnce }, drainOneByOne));
    const those = (as: string) => partitions.filter((partition) => ended.get(partition) === as);
    return { more: those('more'), failed: those('failed') };
  };
}
