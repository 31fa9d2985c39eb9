import { z } from 'zod';
import { type BatchUsage, batchStates, type Batch as StoredBatch } from '../../shared/batches/batch.ts';
import { type BatchProgress, linesPerSecond } from '../../shared/batches/batch-progress.ts';
import type { Prices } from '../../shared/plan-file/plan-file.ts';
import { noDetailCounts } from '../../shared/store/usage/usage-record.ts';
import { listOf } from '../api/lists.ts';
import { count, keyId, seconds, secondsOf, secondsOrNull, shownKeyId } from '../api/response-fields.ts';
import { named } from '../api/route.ts';
import { createPricing, formatCost } from '../usage/report-rows.ts';

/** When a batch is shown, in milliseconds, and with which prices. */
type View = { now: number; planFile: Prices };

/** OpenAI's batch object; times are in seconds, and null until they are known. */
export function presentBatch(batch: StoredBatch, view: View): Batch {
  const { counts, errors } = batch;
  return {
    id: batch.id,
    object: 'batch' as const,
    endpoint: batch.endpoint,
    model: batch.model ?? null,
    errors: errors.length === 0 ? null : { object: 'list' as const, data: errors },
    input_file_id: batch.inputFile,
    input_filename: batch.inputFilename,
    completion_window: batch.completionWindow,
    status: batch.state,
    output_file_id: batch.outputFile ?? null,
    error_file_id: batch.errorFile ?? null,
    created_at: secondsOf(batch.createdAt),
    in_progress_at: secondsOrNull(batch.inProgressAt),
    expires_at: secondsOf(batch.expiresAt),
    finalizing_at: secondsOrNull(batch.finalizingAt),
    completed_at: secondsOrNull(batch.completedAt),
    failed_at: secondsOrNull(batch.failedAt),
    expired_at: secondsOrNull(batch.expiredAt),
    cancelling_at: secondsOrNull(batch.cancellingAt),
    cancelled_at: secondsOrNull(batch.cancelledAt),
    request_counts: { total: counts.total, completed: counts.completed, failed: counts.failed },
    usage: batch.usage === undefined ? null : presentUsage(batch.usage),
    error_counts: batch.errorCounts ?? null,
    progress: presentProgress(batch, view),
    retry_of: batch.retryOf ?? null,
    metadata: batch.metadata,
    key_id: shownKeyId(batch.keyId),
  };
}

/** Without what the account has written. */
export function presentOperatorBatch(batch: StoredBatch, view: View): OperatorBatch {
  const { errors: _errors, metadata: _metadata, progress, ...shown } = presentBatch(batch, view);
  const failures = progress?.failures.map(({ line, code }) => ({ line, code })) ?? [];
  return { ...shown, progress: progress && { ...progress, failures }, account: batch.account };
}

function presentProgress(batch: StoredBatch, { now, planFile }: View): Batch['progress'] {
  const { progress, inProgressAt: since, counts } = batch;
  if (progress === undefined || since === undefined) return null;
  const rate = linesPerSecond(progress, { since, now });
  const left = Math.max(0, counts.total - counts.completed - counts.failed);
  const usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
  for (const tokens of progress.tokens) for (const name of usageNames) usage[name] += tokens[name];
  return {
    lines_per_second: rate === undefined ? null : Math.round(rate * 100) / 100,
    seconds_left: rate === undefined || rate === 0 ? null : Math.ceil(left / rate),
    usage: presentUsage(usage),
    ...costOf(progress, { now, planFile }),
    error_counts: progress.errorCounts,
    failures: progress.failures.map(({ customId, ...failure }) => ({ ...failure, custom_id: customId })),
  };
}

const usageNames = ['promptTokens', 'cachedTokens', 'completionTokens'] as const;

/** By the prices of the day on which it is shown. */
function costOf({ tokens }: BatchProgress, { now, planFile }: View) {
  const pricing = createPricing(planFile);
  if (pricing === undefined) return { cost: null, currency: null, unpriced_tokens: 0 };
  let [cost, unpriced] = [0n, 0];
  for (const { model, ...counts } of tokens) {
    const start = new Date(now).toISOString().slice(0, 10);
    const amount = pricing.costOf({ start, model, counts: { ...noDetailCounts, ...counts } });
    if (amount === undefined) unpriced += counts.promptTokens + counts.completionTokens;
    else cost += amount;
  }
  return { cost: formatCost(cost), currency: pricing.currency, unpriced_tokens: unpriced };
}

/** Results do not have the tokens of reasoning separately. */
function presentUsage({ promptTokens, cachedTokens, completionTokens }: BatchUsage) {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: promptTokens + completionTokens,
  };
}

const requestCounts = z.strictObject({ total: count, completed: count, failed: count });
const batchStatus = z.enum(batchStates);
const batchError = z.strictObject({
  code: z.string(),
  line: z.int().positive().nullable(),
  param: z.string().nullable(),
  message: z.string(),
});
const batchUsage = z.strictObject({
  input_tokens: count,
  input_tokens_details: z.strictObject({ cached_tokens: count }),
  output_tokens: count,
  output_tokens_details: z.strictObject({
    reasoning_tokens: count.meta({ description: 'Always 0: they are not counted separately.' }),
  }),
  total_tokens: count,
});
const failure = z.strictObject({ line: z.int().positive(), code: z.string() });
const progressSchema = z.strictObject({
  lines_per_second: z
    .number()
    .nonnegative()
    .nullable()
    .meta({ description: 'Of the last minute, or since it runs; null at its beginning.' }),
  seconds_left: count.nullable().meta({ description: 'At this rate; null if that is 0 or unknown.' }),
  usage: batchUsage.meta({ description: 'Tokens of the results so far.' }),
  cost: z
    .string()
    .nullable()
    .meta({ description: 'Of these tokens by the prices of today, exact; null: the operator has set no prices.' }),
  currency: z.string().nullable().meta({ description: 'Of `cost`, ISO 4217.' }),
  unpriced_tokens: count.meta({ description: 'Tokens of models without a price; they are not in `cost`.' }),
  error_counts: z.record(z.string(), count).meta({ description: 'As `error_counts` of the batch, so far.' }),
  failures: z
    .array(failure.extend({ custom_id: z.string(), message: z.string() }))
    .meta({ description: 'The first ten failed lines of the file.' }),
});
export const batchSchema = named(
  'Batch',
  z.strictObject({
    id: z.string(),
    object: z.literal('batch'),
    endpoint: z.string(),
    model: z
      .string()
      .nullable()
      .meta({ description: 'The model of all lines; null if they differ, or are not validated.' }),
    errors: z.strictObject({ object: z.literal('list'), data: z.array(batchError) }).nullable(),
    input_file_id: z.string(),
    input_filename: z.string().meta({ description: 'The name of its file.' }),
    completion_window: z.string(),
    status: batchStatus,
    output_file_id: z.string().nullable(),
    error_file_id: z.string().nullable(),
    created_at: seconds,
    in_progress_at: seconds.nullable(),
    expires_at: seconds,
    finalizing_at: seconds.nullable(),
    completed_at: seconds.nullable(),
    failed_at: seconds.nullable(),
    expired_at: seconds.nullable(),
    cancelling_at: seconds.nullable(),
    cancelled_at: seconds.nullable(),
    request_counts: requestCounts,
    usage: batchUsage.nullable().meta({ description: 'Tokens of all results; null until the batch has ended.' }),
    error_counts: z.record(z.string(), count).nullable().meta({
      description:
        'Failed lines by the code of their error, or the status of their response (`status_400`); null until it has ended.',
    }),
    progress: progressSchema.nullable().meta({
      description: 'What its results say while it runs, up to a few seconds ago; null before that and after its end.',
    }),
    retry_of: z.string().nullable().meta({ description: 'The batch of which it runs lines again.' }),
    metadata: z.record(z.string(), z.string()).nullable(),
    key_id: keyId,
  }),
);
export const batchListSchema = named('BatchList', listOf(batchSchema));
export type Batch = z.infer<typeof batchSchema>;
/** A batch as operators see it: without what its owner has written. */
export const operatorBatchSchema = named(
  'OperatorBatch',
  batchSchema.omit({ errors: true, metadata: true }).extend({
    progress: progressSchema.extend({ failures: z.array(failure) }).nullable(),
    account: z.string(),
  }),
);
export const operatorBatchListSchema = named('OperatorBatchList', listOf(operatorBatchSchema));
export type OperatorBatch = z.infer<typeof operatorBatchSchema>;
export const exampleBatch = {
  id: 'batch_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  object: 'batch',
  endpoint: '/v1/chat/completions',
  model: 'small-chat',
  errors: null,
  input_file_id: 'file-01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  input_filename: 'requests.jsonl',
  completion_window: '24h',
  status: 'in_progress',
  output_file_id: null,
  error_file_id: null,
  created_at: 1_767_225_600,
  in_progress_at: 1_767_225_602,
  expires_at: 1_767_312_000,
  finalizing_at: null,
  completed_at: null,
  failed_at: null,
  expired_at: null,
  cancelling_at: null,
  cancelled_at: null,
  request_counts: { total: 100, completed: 42, failed: 1 },
  usage: null,
  error_counts: null,
  progress: {
    lines_per_second: 4.3,
    seconds_left: 14,
    usage: {
      input_tokens: 840,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 420,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 1_260,
    },
    cost: '0.000336',
    currency: 'USD',
    unpriced_tokens: 0,
    error_counts: { VALIDATION_ERROR: 1 },
    failures: [{ line: 7, code: 'VALIDATION_ERROR', custom_id: 'row-7', message: 'messages: expected a list' }],
  },
  retry_of: null,
  metadata: null,
  key_id: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
} as const;
const { errors: _errors, metadata: _metadata, progress, ...shownOfBatch } = exampleBatch;
export const exampleOperatorBatch = {
  ...shownOfBatch,
  progress: { ...progress, failures: [{ line: 7, code: 'VALIDATION_ERROR' }] },
  account: 'user:alice',
};
