import { z } from 'zod';
import { storedDate as date } from '../stored-date.ts';

/** OpenAI's. The first four are those in which something is left to do. */
export const batchStates = [
  'validating',
  'in_progress',
  'finalizing',
  'cancelling',
  'failed',
  'completed',
  'expired',
  'cancelled',
] as const;

const count = z.int().nonnegative();

const batchErrorSchema = z.object({
  code: z.string(),
  /** From 1; null where the fault is the whole file's. */
  line: z.int().positive().nullable(),
  /** The field at fault, as a path within the line (`body.messages[2].content`). */
  param: z.string().nullable(),
  message: z.string(),
});

export const batchSchema = z.object({
  id: z.string(),
  account: z.string(),
  keyId: z.string(),
  endpoint: z.literal('/v1/chat/completions'),
  completionWindow: z.literal('24h'),
  inputFile: z.string(),
  metadata: z.record(z.string(), z.string()).nullable(),
  listedFieldsOnly: z.boolean().optional(),
  state: z.enum(batchStates),
  /** What it ends as, once that is decided. */
  ending: z.enum(['completed', 'expired', 'cancelled']).optional(),
  /** Something is left for a worker to do: to run it, or to clear up after it. */
  open: z.boolean(),
  tokens: count,
  counts: z.object({ total: count, completed: count, failed: count }),
  position: z.object({ line: z.int().positive(), byte: count }),
  errors: z.array(batchErrorSchema),
  outputFile: z.string().optional(),
  errorFile: z.string().optional(),
  createdAt: date,
  expiresAt: date,
  inProgressAt: date.optional(),
  finalizingAt: date.optional(),
  completedAt: date.optional(),
  failedAt: date.optional(),
  expiredAt: date.optional(),
  cancellingAt: date.optional(),
  cancelledAt: date.optional(),
  version: z.int().positive(),
});

/**
 * A batch as it is kept: one document, which moves by updates that are guarded by its `version`. `account` owns it,
 * `keyId` is the key that it was handed in with, empty for a sign-in token. `listedFieldsOnly`: its lines may have no field that
 * the plan file does not list; a batch that was handed in before there were lists does not say so. `tokens` is the estimate of all its prompts.
 * `position` is the first line (from 1) that may have no result yet, and where it begins in the file. Every line before it has
 * one. `errors` are the faults of its file, at most 100.
 */
export type Batch = z.infer<typeof batchSchema>;
export type BatchState = Batch['state'];
export type BatchEnding = NonNullable<Batch['ending']>;
export type BatchError = z.infer<typeof batchErrorSchema>;

/** Faults of a file that are kept; there may be more of them. */
export const batchErrorsMax = 100;

export const batchResultSchema = z.object({
  batch: z.string(),
  line: z.int().positive(),
  customId: z.string(),
  requestId: z.string(),
  /** Whether it belongs in the error file. */
  failed: z.boolean(),
  promptTokens: count,
  completionTokens: count,
  cachedTokens: count,
  estimated: z.boolean(),
  /** The answer's status, null where there is none. */
  status: z.int().nullable(),
  /** The answer's body as JSON text. */
  body: z.string().nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});

/**
 * How one line of a batch has ended. Written once and never changed: the first to be written for a line is what the client
 * gets, and its tokens are what is charged, under `requestId`, for whichever run of that request settles it.
 */
export type BatchResult = z.infer<typeof batchResultSchema>;

/** Answers are kept up to this many bytes; beyond it a line ends in the error file. It is what a line may have, too. */
export const lineBytesMax = 4_194_304;

/**
 * A line that was queued more than once. `number` is that of its latest request, from 1; `failures` counts those that ended by
 * a backend's fault, `losses` those of which nothing came; it is not queued again before `notBefore`.
 */
export const batchRetrySchema = z.object({
  batch: z.string(),
  line: z.int().positive(),
  number: z.int().positive(),
  failures: count,
  losses: count,
  notBefore: date,
});

export type BatchRetry = z.infer<typeof batchRetrySchema>;

export const storedFileSchema = z.object({
  id: z.string(),
  account: z.string(),
  filename: z.string(),
  purpose: z.enum(['batch', 'batch_output']),
  /** `writing` until all its bytes are there, `deleting` from when they may go. Only a `ready` one is there to others. */
  state: z.enum(['writing', 'ready', 'deleting']),
  bytes: count,
  lines: count,
  tokens: count,
  createdAt: date,
  expiresAt: date,
});

/** What is known of a file beside its bytes. `lines` and `tokens` (of all prompts, an estimate) are counted as it is written. */
export type StoredFile = z.infer<typeof storedFileSchema>;
