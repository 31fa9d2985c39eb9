import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../../../shared/errors.ts';
import type { ProcessJob } from '../../failover/run.ts';
import { batchJobSchema } from './batch-job.ts';
import type { FinishLineAttempt } from './finish-line-attempt.ts';
import { failedLine } from './line-results.ts';
import type { WriteResult } from './write-results.ts';

type LostJob = { data: unknown; taken: number; isStalled: boolean };

/**
 * Ends a line whose workers kept dying: with an error, unless one of them stored its answer. Counts as one more attempt at the job, which
 * finds that result and settles it.
 */
export function createFailLostLine({
  writeResult,
  processLine,
  finishAttempt,
  shutdown,
  pauseMs = 1_000,
}: {
  writeResult: WriteResult;
  processLine: ProcessJob;
  finishAttempt: Pick<FinishLineAttempt, 'lose'>;
  shutdown: AbortSignal;
  pauseMs?: number;
}) {
  return async function failLostLine({ data, taken, isStalled }: LostJob): Promise<void> {
    const job = batchJobSchema.parse(data);
    const error = new ApiError('INTERNAL_ERROR', 'The line could not be run.');
    // If the job ended for another reason, for example because Redis refused to postpone it, the line itself is not at fault.
    if (!isStalled) return void (await finishAttempt.lose({ job, taken }, error, shutdown));
    await writeResult(failedLine(job, error), job, shutdown);
    // No job is left that could run later.
    while ((await processLine({ data, taken, signal: shutdown })).outcome === 'later') {
      await sleep(pauseMs, undefined, { signal: shutdown });
    }
  };
}
