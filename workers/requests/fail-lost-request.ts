import { ApiError } from '../../shared/errors.ts';
import { inferenceJobSchema } from '../../shared/jobs/inference-job.ts';
import { promptUsage } from '../failover/answer-usage.ts';
import { createRunLedger } from '../failover/run-ledger.ts';
import type { ReplyFrames } from '../replies/reply-frames.ts';
import { createReplySender } from '../replies/send-reply.ts';
import type { EndRequest } from './end-request.ts';
import type { StartRun } from './start-run.ts';

/**
 * Ends a job that was given up, with an error for its client. It counts as one more run, so that the ingress takes its reply as the
 * latest, after any replies of the lost runs.
 */
export function createFailLostRequest({
  startRun,
  endRequest,
  replyFrames,
}: {
  startRun: StartRun;
  endRequest: EndRequest;
  replyFrames: ReplyFrames;
}) {
  return async function failLostRequest({ data, taken }: { data: unknown; taken: number }): Promise<void> {
    const takenAt = performance.now();
    const job = inferenceJobSchema.parse(data);
    const { outcome, run } = await startRun({ ...job, taken });
    const { replyTo, requestId } = job;
    const reply = createReplySender({ frames: replyFrames, replyTo, requestId, run, onGone: () => {} });
    const error = new ApiError('INTERNAL_ERROR', 'The request could not be run.');
    if (outcome === 'interrupted') return reply.interrupted((await promptUsage(job)).promptTokens);
    if (outcome === 'settled' || outcome === 'gone') return reply.error(error);
    if (outcome === 'superseded') return;
    const ledger = createRunLedger({ run, queueWaitMs: 0 });
    await endRequest({ job, run, taken, takenAt, reply, ledger }, { outcome: 'failed', error });
  };
}
