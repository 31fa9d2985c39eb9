import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../../../shared/errors.ts';
import type { ProcessJob } from '../../answers/run.ts';
import { batchJobSchema } from './batch-job.ts';
import type { FinishLineAttempt } from './finish-line-attempt.ts';
import { failedLine } from './line-results.ts';
import type { WriteResult } from './write-results.ts';

type Lost = { data: unknown; taken: number; isStalled: boolean };

/**
 * Ends a line whose workers kept dying: with an error, unless one of them has stored its answer. It counts as one more taking of
 * its job, which finds that result and settles.
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
  return async function failLostLine({ data, taken, isStalled }: Lost): Promise<void> {
    const job = batchJobSchema.parse(data);
    const error = new ApiError('INTERNAL_ERROR', 'The line could not be run.');
    // Whatever else has ended its job, a Redis that refused to put it off for one, says nothing of the line.
    if (!isStalled) return void (await finishAttempt.lose({ job, taken }, error, shutdown));
    await writeResult(failedLine(job, error), shutdown);
    // There is no job any more that could come later.
    while ((await processLine({ data, taken, signal: shutdown })).outcome === 'later') {
      await sleep(pauseMs, undefined, { signal: shutdown });
    }
  };
}
