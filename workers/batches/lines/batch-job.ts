import { z } from 'zod';
import { type Batch, derivedId, lineErrorFormats } from '../../../shared/batches/batch.ts';
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

/**
 * Returns the id of a line's nth request: `req_<26 characters>-<n>`. It names its job, its lease and its usage record
 * (contract.md#u4-requests-of-a-line).
 */
export function requestIdOf(batch: string, line: number, number: number): string {
  return `req_${derivedId(batch, String(line))}-${number}`;
}

/** Returns the id of a batch's output or error file, always the same. */
export function resultFileOf(batch: string, kind: 'output' | 'error'): string {
  return `file-${derivedId(batch, kind)}`;
}
