import { z } from 'zod';
import type { Batch } from '../../../shared/batches/batch.ts';
import type { ChatCall } from '../../../shared/chat-call/chat-call.ts';
import { queuedCallSchema } from '../../../shared/jobs/inference-job.ts';

/**
 * A line of a batch, queued. It is admitted only when it is run, so it has no times but its batch's. `number` is that of its
 * request, by which its job and its lease are named; `tokens` is what it may cost at most. `failures` and `losses` are those of
 * its earlier requests (`BatchRetry`). `plan` is its account's when it was queued. `tellTo` is the control stream of the worker
 * that has queued it.
 */
export const batchJobSchema = queuedCallSchema.extend({
  batch: z.string(),
  line: z.int().positive(),
  customId: z.string(),
  plan: z.string(),
  number: z.int().positive(),
  failures: z.int().nonnegative(),
  losses: z.int().nonnegative(),
  tokens: z.int().nonnegative(),
  tellTo: z.string(),
});

export type BatchJob = z.infer<typeof batchJobSchema>;

/** A line's request, but for what is asked in it. */
export type LineRequest = Omit<
  BatchJob,
  'body' | 'tokens' | 'outputTokensMax' | 'assembled' | 'stream' | 'includeUsage'
>;

type Line = Pick<BatchJob, 'requestId' | 'line' | 'customId' | 'number' | 'failures' | 'losses'> & { call: ChatCall };
type Owner = Pick<BatchJob, 'account' | 'plan' | 'tellTo'>;

/** The job of a line that is to be queued. */
export function batchJobOf({ id, keyId }: Pick<Batch, 'id' | 'keyId'>, line: Line, owner: Owner): BatchJob {
  const { cost, ...call } = line.call;
  const { requestId, customId, number, failures, losses } = line;
  return {
    ...{ ...call, ...owner, requestId, keyId, earlierRuns: [], tokens: cost.tokens },
    ...{ batch: id, line: line.line, customId, number, failures, losses },
  };
}
