import type { Batch } from '../../../shared/batches/batch.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { PlanFile } from '../../../shared/process/plan-file.ts';
import type { BatchStore } from '../../../shared/store/batches/batch-store.ts';
import type { LineRequest } from '../lines/batch-job.ts';
import { afterAll, type FinishLineAttempt } from '../lines/finish-line-attempt.ts';
import type { LineQueue } from '../lines/line-queue.ts';
import type { BatchFeed, LineInHand } from './batch-feed.ts';

/** A batch that is fed, and the plan of its account. */
type Held = { batch: Batch; plan: string; feed: BatchFeed };

/**
 * Looks for lines that are in hand and have no job any more, of whose end nothing was heard: one that has a result has ended,
 * one that was noted for another try is tried again, and of any other nothing came. Says how many it found.
 */
export function createRecoverLostLines({
  store,
  queue,
  finishAttempt,
  planFile,
}: {
  store: Pick<BatchStore, 'findLine'>;
  queue: Pick<LineQueue, 'remaining'>;
  finishAttempt: Pick<FinishLineAttempt, 'settle' | 'lose'>;
  planFile: Pick<PlanFile, 'models'>;
}) {
  return async function recoverLostLines(
    { batch, plan, feed }: Held,
    lines: readonly LineInHand[],
    signal: AbortSignal,
  ): Promise<number> {
    const there = await queue.remaining(lines);
    const gone = lines.filter((line) => !there.has(line.requestId) && feed.inHand.get(line.line) === line);
    for (const line of gone) await lookAfter(line);
    return gone.length;

    async function lookAfter(line: LineInHand): Promise<void> {
      const taken = { job: requestOf(line), taken: afterAll };
      let known = await store.findLine(batch.id, line.line);
      const isLost = known !== undefined && known.result === undefined && known.number <= line.number;
      if (isLost) {
        await finishAttempt.lose(taken, new ApiError('INTERNAL_ERROR', 'The line could not be run.'), signal);
        known = await store.findLine(batch.id, line.line);
      }
      // Its worker may have died between storing and settling it, and its job of that.
      if (known?.result !== undefined && !isLost) await finishAttempt.settle(taken, known.result);
      if (known?.result === undefined && known?.retry !== undefined) feed.again(known.retry);
      else feed.ended(line.line);
    }

    function requestOf({ model, customId, requestId, line, number, failures, losses }: LineInHand): LineRequest {
      const { id, account, keyId, endpoint } = batch;
      const tier = planFile.models[model]?.tier ?? '';
      return {
        ...{ requestId, account, keyId, plan, model, tier, endpoint, earlierRuns: [], tellTo: '' },
        ...{ batch: id, line, customId, number, failures, losses },
      };
    }
  };
}
