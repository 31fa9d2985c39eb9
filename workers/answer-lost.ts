import type { Redis } from 'ioredis';
import { ulid } from 'ulid';
import { ApiError } from '../shared/errors.ts';
import { inferenceJobSchema } from '../shared/inference-job.ts';
import type { StartRun } from '../shared/limits/start.ts';
import { createReplySender } from './replies/send-reply.ts';

/**
 * Tells the client of a job that was given up that no answer will come. It counts as one more run, so that the ingress
 * takes this word for the latest, whatever the lost runs have sent before.
 */
export function createAnswerLost({ startRun, replyRedis }: { startRun: StartRun; replyRedis: Redis }) {
  return async function answerLost(data: unknown): Promise<void> {
    const job = inferenceJobSchema.parse(data);
    const { run } = await startRun({ ...job, execution: ulid() });
    const { replyTo, requestId } = job;
    const reply = createReplySender({ redis: replyRedis, replyTo, requestId, run, onGone: () => {} });
    await reply.error(new ApiError('INTERNAL_ERROR', 'The request could not be run.'));
  };
}
