import type { Batch, BatchRetry } from '../../shared/batches/batch.ts';
import { ApiError } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { BatchStore } from '../../shared/store/records/batch-store.ts';
import type { LineInProgress } from './line-window.ts';
import type { LineRequest } from './lines/batch-job.ts';
import { afterAll, type FinishLineAttempt } from './lines/finish-line-attempt.ts';
import type { LineQueue } from './lines/line-queue.ts';

/** Lines of one batch, and the plan of its account. */
type LostLineSearch = { batch: Batch; plan: string; lines: readonly LineInProgress[] };

/** What happens meanwhile, and to each line that was found. */
type Recovery = {
  signal: AbortSignal;
  /** Whether no event of the line arrived meanwhile. */
  isCurrent: (line: LineInProgress) => boolean;
  /** Without a retry, the line has ended. */
  onRecovered: (line: LineInProgress, retry: BatchRetry | undefined) => void;
};

/**
 * Finds lines that have no job any more, although no event has reported their end. A line with a result has ended. A line with a recorded
 * retry is tried again. Any other line has lost its request.
 */
export function createRecoverLostLines({
  store,
  queue,
  finishAttempt,
  currentPlanFile,
}: {
  store: Pick<BatchStore, 'findLine'>;
  queue: Pick<LineQueue, 'remaining'>;
  finishAttempt: Pick<FinishLineAttempt, 'settle' | 'lose' | 'drop'>;
  currentPlanFile: () => Pick<PlanFile, 'models'>;
}) {
  return async function recoverLostLines({ batch, plan, lines }: LostLineSearch, recovery: Recovery): Promise<void> {
    const present = await queue.remaining(lines);
    const lost = lines.filter((line) => !present.has(line.requestId) && recovery.isCurrent(line));
    for (const line of lost) recovery.onRecovered(line, await recover(line));

    async function recover(line: LineInProgress): Promise<BatchRetry | undefined> {
      const taken = { job: requestOf(line), taken: afterAll };
      let known = await store.findLine(batch.id, line.line);
      const isLost = known !== undefined && known.result === undefined && known.number <= line.number;
      // The next request was recorded, but this one may not have been released.
      if (known !== undefined && known.result === undefined && known.number > line.number)
        await finishAttempt.drop(taken);
      if (isLost) {
        await finishAttempt.lose(taken, new ApiError('INTERNAL_ERROR', 'The line could not be run.'), recovery.signal);
        known = await store.findLine(batch.id, line.line);
      }
      // Its worker may have died after it stored the result and before it settled it.
      if (known?.result !== undefined && !isLost) await finishAttempt.settle(taken, known.result);
      return known?.result === undefined ? known?.retry : undefined;
    }

    function requestOf(lost: LineInProgress): LineRequest {
      const { model, requestedModel, customId, requestId, line, number, failures, losses } = lost;
      const { id, account, keyId } = batch;
      const { endpoint } = batch;
      const tier = currentPlanFile().models[model]?.tier ?? '';
      return {
        requestId,
        account,
        keyId,
        plan,
        model,
        tier,
        endpoint,
        earlierRuns: [],
        tellTo: '',
        ...(requestedModel !== undefined && { requestedModel }),
        batch: id,
        line,
        customId,
        number,
        failures,
        losses,
      };
    }
  };
}
