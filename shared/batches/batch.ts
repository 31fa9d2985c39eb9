import { createHash } from 'node:crypto';
import { encodeTime } from 'ulid';
import { z } from 'zod';
import { storedDate as date } from '../json/stored-values.ts';
import { batchProgressSchema } from './batch-progress.ts';

/** OpenAI's states. In the first four there is work left. */
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

/** The forms of the errors in the error file: as at the base URL where the batch was created. */
export const lineErrorFormats = ['flat', 'nested'] as const;

const count = z.int().nonnegative();

const batchErrorSchema = z.object({
  code: z.string(),
  /** From 1; null for an error of the file itself. */
  line: z.int().positive().nullable(),
  /** The invalid field, as a path within the line (`body.messages[2].content`). */
  param: z.string().nullable(),
  message: z.string(),
});

const batchUsageSchema = z.object({ promptTokens: count, cachedTokens: count, completionTokens: count });

const errorCountsSchema = z.record(z.string(), count);

/** How many lines of a batch ended with each error: its code, or the status of its response. */
export type ErrorCounts = z.infer<typeof errorCountsSchema>;

/** The tokens of all results of a batch. */
export type BatchUsage = z.infer<typeof batchUsageSchema>;

/** Which lines of an ended batch another one runs again: those that failed, those that were not run to their end, or both. */
export const retriedLines = ['failed', 'unfinished', 'all'] as const;

export const batchSchema = z.object({
  id: z.string(),
  account: z.string(),
  keyId: z.string(),
  endpoint: z.string(),
  completionWindow: z.literal('24h'),
  inputFile: z.string(),
  inputFilename: z.string(),
  metadata: z.record(z.string(), z.string()).nullable(),
  errorFormat: z.enum(lineErrorFormats),
  outputSeconds: z.int().positive().optional(),
  state: z.enum(batchStates),
  /** The final state, once it is decided. */
  ending: z.enum(['completed', 'expired', 'cancelled']).optional(),
  /** A worker has work left: to run the batch, or to clean up after it. */
  open: z.boolean(),
  tokens: count,
  counts: z.object({ total: count, completed: count, failed: count }),
  model: z.string().optional(),
  usage: batchUsageSchema.optional(),
  errorCounts: errorCountsSchema.optional(),
  progress: batchProgressSchema.optional(),
  retryOf: z.string().optional(),
  retryLines: z.enum(retriedLines).optional(),
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
 * A stored batch: one document, updated with its `version` as guard. `account` owns it. `keyId` is the key that it was created with, empty
 * for a sign-in token. `endpoint` is the path of the endpoint of its lines. `inputFilename` is the name of its file. `tokens` is the
 * estimate of all its prompts. `outputSeconds` is how long its files are kept, if its owner has said so. `position` is the first line (from
 * 1) that may have no result yet, and its offset in the file. Every line before it has a result. `model` is that of its lines, if all have
 * the same. `usage` and `errorCounts` are set once the results are written, and `progress` before
 * that, while lines run. `retryOf` is the batch of which it runs `retryLines` again. `errors` are those of its file, at most 100.
 */
export type Batch = z.infer<typeof batchSchema>;
export type BatchState = Batch['state'];

export type BatchEnding = NonNullable<Batch['ending']>;
export type BatchError = z.infer<typeof batchErrorSchema>;

/** Max stored errors of a file. */
export const batchErrorsMax = 100;

export const batchResultSchema = z.object({
  batch: z.string(),
  line: z.int().positive(),
  customId: z.string(),
  requestId: z.string(),
  /** The model that was asked for; omitted if it is unknown. */
  model: z.string().optional(),
  /** Whether the result belongs in the error file. */
  failed: z.boolean(),
  promptTokens: count,
  completionTokens: count,
  cachedTokens: count,
  estimated: z.boolean(),
  /** Status of the response, null if there is none. */
  status: z.int().nullable(),
  /** Body of the response as JSON text. */
  body: z.string().nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});

/**
 * The result of one line of a batch. Written once and never changed: the first result written for a line is what the client gets
 * (contract.md#f4-results). Its tokens are charged, under `requestId`, no matter which run of that request settles it.
 */
export type BatchResult = z.infer<typeof batchResultSchema>;

/** Largest stored body of a response; a line with a larger one ends in the error file. It is also the largest size of a line. */
export const lineBytesMax = 4_194_304;

/**
 * A line that was queued more than once. `number` is that of its latest request, from 1. `failures` counts requests that ended by a
 * backend's fault, `losses` those that ended without a result. The line is not queued again before `notBefore`.
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

export const filePurposes = ['batch', 'batch_output'] as const;

export const storedFileSchema = z.object({
  id: z.string(),
  account: z.string(),
  keyId: z.string().optional(),
  filename: z.string(),
  purpose: z.enum(filePurposes),
  /** `writing` until all its bytes are stored, `deleting` once they may be removed. Clients see only `ready` files. */
  state: z.enum(['writing', 'ready', 'deleting']),
  bytes: count,
  lines: count,
  tokens: count,
  createdAt: date,
  expiresAt: date,
});

/**
 * The record of a file, without its bytes. `keyId`: the key that it was uploaded with, or whose batch wrote it. `lines` and `tokens` (an
 * estimate of all prompts) are counted during the upload.
 */
export type StoredFile = z.infer<typeof storedFileSchema>;

/** What may change of a file. */
export type FileChange = Partial<Omit<StoredFile, 'id' | 'account' | 'keyId'>>;

const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'; // Crockford's base 32, as in ULIDs

/** Returns the id of a line in the results of its batch: `batch_req_<26 characters>`, always the same. */
export function resultIdOf(batch: string, line: number): string {
  return `batch_req_${derivedId(batch, String(line))}`;
}

/** 26 characters in the form of a ULID, with the time of the batch's id, so that ids sort by submission. */
export function derivedId(batch: string, name: string): string {
  const time = /^batch_([0-9A-Z]{10})/.exec(batch)?.[1] ?? encodeTime(0);
  const digest = createHash('sha256').update(`${batch} ${name}`).digest();
  const rest = Array.from({ length: 16 }, (_, index) => alphabet[(digest[index] ?? 0) % 32]).join('');
  return time + rest;
}
