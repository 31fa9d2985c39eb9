import { z } from 'zod';
import { storedDate } from '../../stored-values.ts';

const tokens = z.int().nonnegative();
const milliseconds = z.int().nonnegative();
/** `YYYY-MM`, in UTC. */
export const usageMonthSchema = z.string().regex(/^\d{4}-\d{2}$/);

/**
 * One call of a backend, by its own name of the model if it has one. `rule` and `status` say what it answered if it gave no answer, and
 * `isLoss` that the request may have caused its failure (contract.md#ms3-evidence). Or (`outcome` `lost`, no `backend`) a run whose worker
 * died, of which nothing else is known.
 */
export const usageAttemptSchema = z.object({
  run: z.int().positive(),
  backend: z.string().optional(),
  model: z.string().optional(),
  outcome: z.string(),
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
  runs: z.int().nonnegative(),
  attempts: z.array(usageAttemptSchema),
  promptTokens: tokens,
  completionTokens: tokens,
  cachedTokens: tokens,
  chargedTokens: tokens,
  counted: z.enum(['reported', 'estimated']),
  outcome: z.enum(usageOutcomes),
  queueWaitMs: milliseconds.nullable(),
  firstTokenMs: milliseconds.nullable(),
  durationMs: milliseconds.nullable(),
  overage: z.boolean(),
  entry: z.string(),
});

/**
 * The usage of one request; written once and never changed (contract.md#r4-records, contract.md#e7-usage-records). `month` (`YYYY-MM`, UTC)
 * is the month of its admission, no matter when it was settled. `requestedModel` is the name that the client sent, if it is an alias.
 * `answerId` is the backend's id of the answer, if it gave one.
 * `chargedTokens` count against the quota; `cachedTokens` are part of the prompt tokens. `entry` is its position in the outbox, padded so
 * that it sorts as text. Times are durations in milliseconds, null if there was nothing to measure.
 */
export type UsageRecord = z.infer<typeof usageRecordSchema>;
export type UsageAttempt = z.infer<typeof usageAttemptSchema>;

/** The place of a record in the order of an account's requests: by admission, then by id. */
export type RecordPlace = Pick<UsageRecord, 'admittedAt' | 'requestId'>;
/** The records that come before this place, or the latest ones: the first `limit`, latest first. */
export type RecordPage = { before?: RecordPlace | undefined; limit: number };
