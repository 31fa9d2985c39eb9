import { isLaterEntry, parseOutboxEntry, parseRefusals } from '../../../shared/jobs/usage-outbox.ts';
import { outboxKey, outboxMarksKey, partitionCount } from '../../../shared/redis/keys.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import { openRedis } from '../open-redis.ts';

/** Every entry that any outbox has had, in reading order. */
export interface FollowedOutboxes extends Disposable {
  events: readonly UsageRecord[];
  /** Reads each outbox to its end. */
  readAll(): Promise<void>;
  /** Reads each outbox to its end. Resolves with true if everything is in the store. */
  areDrained(): Promise<boolean>;
  /** Entries that the store does not have yet. */
  waiting(): Promise<number>;
}

const readMs = 1_000;
const entriesAtOnce = 1_000;

type Entries = [string, string[]][];

/** Reads from the first entry on: entries are trimmed from an outbox ten seconds after the store has them. */
export function followOutboxes(redisUrl: string): FollowedOutboxes {
  const redis = openRedis(redisUrl); // connects again, and then continues from the last position
  const events: UsageRecord[] = [];
  const last = Array.from({ length: partitionCount }, () => '0-0');
  const readings: (Promise<void> | undefined)[] = [];

  async function readPartition(partition: number): Promise<void> {
    for (let more = true; more; ) {
      const from = `(${last[partition]}`;
      const entries: Entries = await redis.xrange(outboxKey(partition), from, '+', 'COUNT', entriesAtOnce);
      for (const [id, fields] of entries) {
        last[partition] = id;
        const found = toRecord(fields);
        if (parseRefusals(id, found) === undefined) events.push(parseOutboxEntry(id, found));
      }
      more = entries.length === entriesAtOnce;
    }
  }

  /** Two at once would read an entry twice. While a node of a cluster is away, only its outboxes are not read. */
  function readOnce(partition: number): Promise<void> {
    const reading =
      readings[partition] ??
      readPartition(partition).finally(() => {
        readings[partition] = undefined;
      });
    readings[partition] = reading;
    return reading;
  }

  async function readAll(): Promise<void> {
    await Promise.all(readings);
    await Promise.all(last.map((_, partition) => readOnce(partition)));
  }

  const timer = setInterval(() => {
    for (const partition of last.keys()) readOnce(partition).catch(() => {});
  }, readMs);
  return {
    ...{ events, readAll },
    async areDrained() {
      await readAll();
      const drained = await Promise.all(last.map((_, partition) => redis.hget(outboxMarksKey(partition), 'drained')));
      return last.every((id, partition) => !isLaterEntry(id, drained[partition] ?? '0-0'));
    },
    async waiting() {
      const lengths = last.map(async (_, partition) => {
        const drained = (await redis.hget(outboxMarksKey(partition), 'drained')) ?? '0-0';
        return (await redis.xrange(outboxKey(partition), `(${drained}`, '+')).length;
      });
      return (await Promise.all(lengths)).reduce((sum, length) => sum + length, 0);
    },
    [Symbol.dispose]() {
      clearInterval(timer);
      redis.disconnect();
    },
  };
}

function toRecord(fields: readonly string[]): Record<string, string> {
  const names = fields.filter((_, index) => index % 2 === 0);
  return Object.fromEntries(names.map((name, index) => [name, fields[2 * index + 1] ?? '']));
}
