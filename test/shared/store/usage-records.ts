import { ulid } from 'ulid';
import { entryOf } from '../../../shared/jobs/usage-outbox.ts';
import type { UsageCounts, UsageRecord, UsageSum } from '../../../shared/store/usage/usage-record.ts';
import type { UsageDay } from '../../../shared/store/usage/usage-tables.ts';

/** The entry of the stream's nth id, with one id per millisecond. */
export const entryAt = (number: number) => entryOf(`${1_700_000_000_000 + number}-0`);

/** A complete record of a new request, in the month of its admission. */
export function usageRecord(given: Partial<UsageRecord> = {}): UsageRecord {
  const admittedAt = given.admittedAt ?? new Date('2026-12-05T10:11:12.345Z');
  const [promptTokens, completionTokens] = [given.promptTokens ?? 10, given.completionTokens ?? 5];
  return {
    requestId: `req_${ulid()}`,
    account: 'user:ann',
    keyId: 'key_1',
    plan: 'free',
    model: 'small-chat',
    tier: 'guest',
    endpoint: '/v1/chat/completions',
    batch: null,
    month: admittedAt.toISOString().slice(0, 7),
    admittedAt,
    settledAt: new Date(admittedAt.getTime() + 2_000),
    runs: 1,
    attempts: [{ run: 1, backend: 'onprem-a', outcome: 'answered', durationMs: 1_500 }],
    promptTokens,
    completionTokens,
    cachedTokens: 0,
    chargedTokens: promptTokens + completionTokens,
    counted: 'reported',
    outcome: 'completed',
    queueWaitMs: 3,
    firstTokenMs: 200,
    durationMs: 2_000,
    overage: false,
    entry: entryAt(0),
    ...given,
  };
}

/** This many records in the order of the outbox, shaped by `shape`. */
export function usageRecords(
  count: number,
  shape: (index: number) => Partial<UsageRecord> = () => ({}),
): UsageRecord[] {
  return Array.from({ length: count }, (_, index) => usageRecord({ entry: entryAt(index + 1), ...shape(index) }));
}

/** The expected sum, computed from the records alone. All of them are of one account and month. */
export function sumOf(records: readonly UsageRecord[]): UsageSum {
  const [first, last] = [records[0] ?? usageRecord(), records.at(-1) ?? usageRecord()];
  const { account, month } = first;
  return { account, month, lastEntry: last.entry, total: countsOf(records) };
}

/** The expected usage by day and model, computed from the records alone. */
export function daysOf(records: readonly UsageRecord[]): UsageDay[] {
  const groups = Map.groupBy(records, ({ admittedAt, model }) =>
    JSON.stringify([admittedAt.toISOString().slice(0, 10), model]),
  );
  const days = [...groups].map(([key, group]) => {
    const [day, model] = JSON.parse(key) as [string, string];
    return { day, model, ...countsOf(group) };
  });
  const order = (one: string, other: string) => (one < other ? -1 : one > other ? 1 : 0);
  return days.sort((one, other) => order(one.day, other.day) || order(one.model, other.model));
}

function countsOf(records: readonly UsageRecord[]): UsageCounts {
  const sum = (value: (record: UsageRecord) => number) => records.reduce((total, record) => total + value(record), 0);
  return {
    requests: records.length,
    failed: sum(({ outcome }) => (outcome === 'failed' || outcome === 'lost' ? 1 : 0)),
    cancelled: sum(({ outcome }) => (outcome === 'cancelled' ? 1 : 0)),
    promptTokens: sum(({ promptTokens }) => promptTokens),
    completionTokens: sum(({ completionTokens }) => completionTokens),
    chargedTokens: sum(({ chargedTokens }) => chargedTokens),
    overageTokens: sum(({ overage, chargedTokens }) => (overage ? chargedTokens : 0)),
  };
}
