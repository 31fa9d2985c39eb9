import { entryOf } from '../../shared/jobs/usage-outbox.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { outboxKey, partitionOf } from '../../shared/redis/keys.ts';
import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';
import { usageRecord } from '../shared/store/usage-records.ts';

/** An account of the nth partition. */
export function accountOf(partition: number): string {
  for (let number = 0; ; number += 1) if (partitionOf(`user:${number}`) === partition) return `user:${number}`;
}

/** Appends the event of this record, as settling does. Returns the record in its place. */
export async function appendUsage(redis: Redis, given: Partial<UsageRecord>, id = '*'): Promise<UsageRecord> {
  const { requestId, account, month, admittedAt, settledAt, runs, chargedTokens, overage, entry, ...report } =
    usageRecord(given);
  const fields = {
    request: requestId,
    account,
    month,
    chargedTokens,
    overage: overage ? 1 : 0,
    runs,
    admittedAt: admittedAt.getTime(),
    settledAt: settledAt.getTime(),
    report: JSON.stringify({ ...report, endedRuns: [1] }),
  };
  const added = await redis.xadd(outboxKey(partitionOf(account)), id, ...Object.entries(fields).flat());
  return { ...usageRecord(given), requestId, entry: entryOf(added ?? '') };
}
