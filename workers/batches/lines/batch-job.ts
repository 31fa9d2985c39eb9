import { createHash } from 'node:crypto';
import { encodeTime } from 'ulid';
import { z } from 'zod';
import { type Batch, lineErrorFormats } from '../../../shared/batches/batch.ts';
import type { Call } from '../../../shared/endpoints/definition/read-call.ts';
import { queuedCallSchema } from '../../../shared/jobs/inference-job.ts';

/**
 * A queued line of a batch. It is admitted when it runs, so it has no deadline except that of its batch. `number` is the number of its
 * request, which names its job and its lease. `tokens` is the most that it may cost. `failures` and `losses` count those of its earlier
 * requests (`BatchRetry`). `plan` is the account's plan when the line was queued. `tellTo` is the control stream of the worker that queued
 * it.
 */
export const batchJobSchema = queuedCallSchema.extend({
  batch: z.string(),
  line: z.int().positive(),
  customId: z.string(),
  errorFormat: z.enum(lineErrorFormats),
  plan: z.string(),
  number: z.int().positive(),
  failures: z.int().nonnegative(),
  losses: z.int().nonnegative(),
  reservedTokens: z.int().nonnegative(),
  tellTo: z.string(),
});

export type BatchJob = z.infer<typeof batchJobSchema>;

/** A line's request without its content. */
export type LineRequest = Omit<
  BatchJob,
  | 'payload'
  | 'headers'
  | 'reservedTokens'
  | 'outputTokensMax'
  | 'limitFields'
  | 'choices'
  | 'assembled'
  | 'stream'
  | 'includeUsage'
  | 'promptEstimate'
  | 'errorFormat'
>;

type Line = Pick<BatchJob, 'requestId' | 'line' | 'customId' | 'number' | 'failures' | 'losses'> & { call: Call };
type Owner = Pick<BatchJob, 'account' | 'plan' | 'tellTo'>;

/** Builds the job of a line. */
export function batchJobOf(
  { id, keyId, errorFormat }: Pick<Batch, 'id' | 'keyId' | 'errorFormat'>,
  line: Line,
  owner: Owner,
): BatchJob {
  const { cost, pool: _, ...call } = line.call;
  const { requestId, customId, number, failures, losses } = line;
  return {
    ...call,
    ...owner,
    requestId,
    keyId,
    earlierRuns: [],
    reservedTokens: cost.reservedTokens,
    promptEstimate: cost.promptTokens,
    batch: id,
    errorFormat,
    line: line.line,
    customId,
    number,
    failures,
    losses,
  };
}

const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'; // Crockford's base 32, as in ULIDs

/** Returns the id of a line in the results of its batch: `batch_req_<26 characters>`, always the same. */
export function resultIdOf(batch: string, line: number): string {
  return `batch_req_${derived(batch, String(line))}`;
}

/**
 * Returns the id of a line's nth request: `req_<26 characters>-<n>`. It names its job, its lease and its usage record
 * (contract.md#u4-requests-of-a-line).
 */
export function requestIdOf(batch: string, line: number, number: number): string {
  return `req_${derived(batch, String(line))}-${number}`;
}

/** Returns the id of a batch's output or error file, always the same. */
export function resultFileOf(batch: string, kind: 'output' | 'error'): string {
  return `file-${derived(batch, kind)}`;
}

/** 26 characters in the form of a ULID, with the time of the batch's id, so that ids sort by submission. */
function derived(batch: string, name: string): string {
  const time = /^batch_([0-9A-Z]{10})/.exec(batch)?.[1] ?? encodeTime(0);
  const digest = createHash('sha256').update(`${batch} ${name}`).digest();
  const rest = Array.from({ length: 16 }, (_, index) => alphabet[(digest[index] ?? 0) % 32]).join('');
  return time + rest;
}
