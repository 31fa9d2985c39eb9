import { z } from 'zod';
import { storedDate } from '../../json/stored-values.ts';

const count = z.int().nonnegative();
const milliseconds = z.int().nonnegative();
/** `YYYY-MM`, in UTC. */
export const usageMonthSchema = z.string().regex(/^\d{4}-\d{2}$/);

/**
 * One call of a backend, by its own name of the model if it has one. If it gave no answer, `cause` says why in a few words of this service,
 * `address` where it was called, `rule` and `status` what it answered, and `isLoss` that the request may have caused its failure
 * (contract.md#ms3-evidence). Or (`outcome` `lost`, no `backend`) a run whose worker died, of which nothing else is known.
 */
export const usageAttemptSchema = z.object({
  run: z.int().positive(),
  backend: z.string().optional(),
  model: z.string().optional(),
  outcome: z.string(),
  cause: z.string().optional(),
  address: z.string().optional(),
  rule: z.string().optional(),
  status: z.int().optional(),
  isLoss: z.literal(true).optional(),
  durationMs: milliseconds.optional(),
});

export const usageOutcomes = ['completed', 'failed', 'cancelled', 'lost'] as const;

export const usageRecordSchema = z.object({
  requestId: z.string(),
  account: z.string(),
  keyId: z.string(),
  plan: z.string(),
  model: z.string(),
  requestedModel: z.string().optional(),
  tier: z.string(),
  endpoint: z.string(),
  answerId: z.string().optional(),
  batch: z.string().nullable(),
  month: usageMonthSchema,
  admittedAt: storedDate,
  settledAt: storedDate,
  runs: count,
  attempts: z.array(usageAttemptSchema),
  promptTokens: count,
  completionTokens: count,
  cachedTokens: count,
  chargedTokens: count,
  counted: z.enum(['reported', 'estimated']),
  outcome: z.enum(usageOutcomes),
  code: z.string().optional(),
  status: z.int().optional(),
  queueWaitMs: milliseconds.nullable(),
  firstTokenMs: milliseconds.nullable(),
  durationMs: milliseconds.nullable(),
  overage: z.boolean(),
  entry: z.string(),
});

/**
 * The usage of one request; written once and never changed (contract.md#r4-records, contract.md#e7-usage-records). `month` (`YYYY-MM`, UTC)
 * is the month of its admission, no matter when it was settled. `requestedModel` is the name that the client sent, if it is an alias.
 * `answerId` is the backend's id of the answer, if it gave one. `code` and `status` are those of the error that its client got: 200 if it
 * came at the end of a stream.
 * `chargedTokens` count against the quota; `cachedTokens` are part of the prompt tokens. `entry` is its position in the outbox, padded so
 * that it sorts as text. Times are durations in milliseconds, null if there was nothing to measure.
 */
export type UsageRecord = z.infer<typeof usageRecordSchema>;
export type UsageAttempt = z.infer<typeof usageAttemptSchema>;

/** The place of a record in the order of an account's requests: by admission, then by id. */
export type RecordPlace = Pick<UsageRecord, 'admittedAt' | 'requestId'>;
/** The records that come before this place, or the latest ones: the first `limit`, latest first. */
export type RecordPage = { before?: RecordPlace | undefined; limit: number };

export type UsageMonth = { account: string; month: string };

/** The usage of an account in a month. It contains every record of that month whose `entry` is at or before `lastEntry`. */
export type UsageSum = UsageMonth & { lastEntry: string; total: UsageCounts };

/**
 * One account's month in a batch of records. `lastEntry` is the last of all its entries. `disputed`: the record of some request is stored
 * under another entry, so this batch does not show whether it was summed.
 */
export type MonthBatch = UsageMonth & { unsummed: UsageRecord[]; lastEntry: string; disputed: boolean };

/** `storedEntries` has the entry under which each request's record is stored. */
export function byMonth(records: readonly UsageRecord[], storedEntries: ReadonlyMap<string, string>): MonthBatch[] {
  const months = new Map<string, MonthBatch>();
  const distinct = new Map(records.map((record) => [`${record.entry} ${record.requestId}`, record]));
  for (const record of [...distinct.values()].sort((one, other) => compare(one.entry, other.entry))) {
    const { requestId, account, month, entry } = record;
    const key = `${month} ${account}`;
    const batch = months.get(key) ?? { account, month, unsummed: [], lastEntry: entry, disputed: false };
    months.set(key, batch);
    batch.lastEntry = entry;
    if (storedEntries.get(requestId) === entry) batch.unsummed.push(record);
    else batch.disputed = true;
  }
  return [...months.values()];
}

export function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

export const usageCountsSchema = z.object({
  requests: count,
  failed: count,
  cancelled: count,
  promptTokens: count,
  completionTokens: count,
  chargedTokens: count,
  overageTokens: count,
});

/** Upper bounds in milliseconds of the classes of first tokens; the last class has none. */
export const firstTokenBoundsMs = [
  50, 100, 200, 300, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 10_000, 30_000,
] as const;

const firstTokenCounts = {
  firstTokens50: count,
  firstTokens100: count,
  firstTokens200: count,
  firstTokens300: count,
  firstTokens500: count,
  firstTokens750: count,
  firstTokens1000: count,
  firstTokens1500: count,
  firstTokens2000: count,
  firstTokens3000: count,
  firstTokens5000: count,
  firstTokens10000: count,
  firstTokens30000: count,
  firstTokensLater: count,
} satisfies Record<`firstTokens${(typeof firstTokenBoundsMs)[number] | 'Later'}`, typeof count>;

/** The class of each request whose first token came within this time, in order of `firstTokenBoundsMs`. */
export const firstTokenNames = Object.keys(firstTokenCounts) as (keyof typeof firstTokenCounts)[]; // its keys

/** Details also have what only reports need. */
export const detailCountsSchema = usageCountsSchema.extend({ cachedTokens: count, ...firstTokenCounts });

/** `failed` counts the outcomes `failed` and `lost`. `overageTokens` are the charged tokens beyond the allowance, with overage on. */
export type UsageCounts = z.infer<typeof usageCountsSchema>;
/** `cachedTokens` are part of the prompt tokens. */
export type DetailCounts = z.infer<typeof detailCountsSchema>;

export const countNames = Object.keys(usageCountsSchema.shape) as (keyof UsageCounts)[]; // its keys are the keys of the shape
export const detailCountNames = Object.keys(detailCountsSchema.shape) as (keyof DetailCounts)[]; // likewise

/** The fields of a record that count, and those that say where. */
export const summedRecordSchema = usageRecordSchema.pick({
  requestId: true,
  entry: true,
  keyId: true,
  model: true,
  endpoint: true,
  admittedAt: true,
  outcome: true,
  code: true,
  promptTokens: true,
  completionTokens: true,
  cachedTokens: true,
  chargedTokens: true,
  firstTokenMs: true,
  overage: true,
});
export type SummedRecord = z.infer<typeof summedRecordSchema>;

/** The counts of an account without usage. */
export const noCounts: UsageCounts = {
  requests: 0,
  failed: 0,
  cancelled: 0,
  promptTokens: 0,
  completionTokens: 0,
  chargedTokens: 0,
  overageTokens: 0,
};

export const noDetailCounts: DetailCounts = {
  ...noCounts,
  cachedTokens: 0,
  ...(Object.fromEntries(firstTokenNames.map((name) => [name, 0])) as Record<keyof typeof firstTokenCounts, 0>), // all
};

/** Adds a record to these counts. */
export function addRecord(counts: DetailCounts, record: SummedRecord): void {
  const { outcome, chargedTokens } = record;
  counts.requests += 1;
  if (outcome === 'failed' || outcome === 'lost') counts.failed += 1;
  if (outcome === 'cancelled') counts.cancelled += 1;
  counts.promptTokens += record.promptTokens;
  counts.completionTokens += record.completionTokens;
  counts.cachedTokens += record.cachedTokens;
  counts.chargedTokens += chargedTokens;
  if (record.overage) counts.overageTokens += chargedTokens;
  if (record.firstTokenMs !== null) counts[firstTokenClass(record.firstTokenMs)] += 1;
}

function firstTokenClass(ms: number): (typeof firstTokenNames)[number] {
  const index = firstTokenBoundsMs.findIndex((bound) => ms <= bound);
  return firstTokenNames.at(index) ?? 'firstTokensLater'; // the last one if no bound fits
}

/** The sum of these counts, without those that only details have. */
export function totalOf(all: Iterable<UsageCounts>): UsageCounts {
  const sum = { ...noCounts };
  for (const counts of all) for (const name of countNames) sum[name] += counts[name];
  return sum;
}
