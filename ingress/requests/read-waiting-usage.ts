import { fieldsOf, parseOutboxEntry } from '../../shared/jobs/usage-outbox.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { endedRequestKey, outboxKey, outboxMarksKey, partitionOf } from '../../shared/redis/keys.ts';
import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';

/** A drainer stores so many in a fraction of a second. If more wait, the store or all drainers are away. */
const entriesMax = 5_000;
const entriesAtOnce = 500;

/** The mark of a settled request (settle.lua). The release before does not write the id of the entry. */
const settledMark = /^settled \d+ .* (\d+-\d+)$/;

/** `isComplete`: no entry was left out. */
export type WaitingUsage = { records: UsageRecord[]; isComplete: boolean };

/** Reads usage records that may not be in the store yet, from the outbox of the account's partition (contract.md#n10-outbox). */
export interface ReadWaitingUsage {
  /** Finds the record of a request that was settled: with two calls, however many records wait. */
  findSettled(account: string, requestId: string): Promise<UsageRecord | undefined>;
  /** Returns the account's records that wait, oldest first. Reads at most 5,000 entries of the partition. */
  list(account: string): Promise<WaitingUsage>;
}

export function createReadWaitingUsage(redis: Redis): ReadWaitingUsage {
  function read(account: string, from: string, { to = '+', count }: { to?: string; count: number }) {
    return redisUnavailable(redis.xrange(outboxKey(partitionOf(account)), from, to, 'COUNT', count));
  }

  return {
    async findSettled(account, requestId) {
      const mark = await redisUnavailable(redis.get(endedRequestKey(account, requestId)));
      const id = settledMark.exec(mark ?? '')?.[1];
      if (id === undefined) return undefined;
      return recordsOf(await read(account, id, { to: id, count: 1 }), account)[0];
    },
    async list(account) {
      const marks = outboxMarksKey(partitionOf(account));
      let after = (await redisUnavailable(redis.hget(marks, 'drained'))) ?? '0-0';
      const records: UsageRecord[] = [];
      for (let count = 0; count < entriesMax; count += entriesAtOnce) {
        const entries = await read(account, `(${after}`, { count: entriesAtOnce });
        records.push(...recordsOf(entries, account));
        after = entries.at(-1)?.[0] ?? after;
        if (entries.length < entriesAtOnce) return { records, isComplete: true };
      }
      return { records, isComplete: false };
    },
  };
}

/** Other accounts share the outbox. An entry that cannot be read is left to the drainers, which set it aside. */
function recordsOf(entries: readonly [id: string, fields: string[]][], account: string): UsageRecord[] {
  return entries.flatMap(([id, entry]) => {
    const fields = fieldsOf(entry);
    if (fields.account !== account) return [];
    try {
      return [parseOutboxEntry(id, fields)];
    } catch {
      return [];
    }
  });
}
