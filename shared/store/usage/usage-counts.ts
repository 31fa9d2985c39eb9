import { z } from 'zod';
import { usageRecordSchema } from './usage-record.ts';

const count = z.int().nonnegative();

export const usageCountsSchema = z.object({
  requests: count,
  failed: count,
  cancelled: count,
  promptTokens: count,
  completionTokens: count,
  chargedTokens: count,
  overageTokens: count,
});

/** Details also have what only exports need. */
export const detailCountsSchema = usageCountsSchema.extend({ cachedTokens: count });

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
  promptTokens: true,
  completionTokens: true,
  cachedTokens: true,
  chargedTokens: true,
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

export const noDetailCounts: DetailCounts = { ...noCounts, cachedTokens: 0 };

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
}

/** The sum of these counts, without those that only details have. */
export function totalOf(all: Iterable<UsageCounts>): UsageCounts {
  const sum = { ...noCounts };
  for (const counts of all) for (const name of countNames) sum[name] += counts[name];
  return sum;
}
