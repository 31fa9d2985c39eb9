import { z } from 'zod';
import { type Batch, retriedLines } from '../../shared/batches/batch.ts';
import { isOver } from '../../shared/batches/batch-states.ts';
import { ApiError, errorStatus, toApiError } from '../../shared/errors.ts';
import { refuseOutsideKey } from '../../shared/store/records/key.ts';
import { named, type Route, type RouteRequest, route } from '../api/route.ts';
import type { AppParts } from '../app-parts.ts';
import { fileGone, noSuchLine } from '../files/copy-lines.ts';
import { fileAccessOf, findFile } from '../files/find-file.ts';
import { idempotencyKeyOf } from '../middleware/idempotency.ts';
import { batchParams, createOnce, errorFormatOf, insertNew, newBatch, requireReadable } from './batches.ts';
import { batchSchema, exampleBatch, presentBatch } from './present-batch.ts';

const retryBody = named(
  'BatchRetry',
  z.strictObject({
    lines: z.enum(retriedLines).default('failed').meta({
      description:
        '`failed`: lines that ended with an error; `unfinished`: lines of an expired or cancelled batch that were not run to their end; `all`: both.',
    }),
  }),
);

type Retry = RouteRequest<'account', '/v1/batches/:batch/retry', undefined, typeof retryBody>;

export const retryRoutes: readonly Route[] = [
  /**
   * Creates a batch of the lines of an ended batch that failed (contract.md#f7-retries). Their file is written first, and kept for an hour.
   * If the ingress dies before the batch exists, the file goes then, and a repeat writes another one.
   */
  route({
    id: 'retryBatch',
    method: 'POST',
    path: '/v1/batches/:batch/retry',
    access: 'account',
    tag: 'Batches',
    summary: 'Run the failed lines of a batch again',
    description:
      'Writes a new input file with these lines, and creates a batch of it with the endpoint, the metadata and the `output_expires_after` of the other one. `CONFLICT` while the batch runs. `NOT_FOUND` if its input file or its error file was deleted. `VALIDATION_ERROR` if there is no such line. The new file counts for the room of the account.',
    body: { schema: retryBody, example: { lines: 'failed' } },
    answers: {
      description: 'The new batch.',
      schema: batchSchema,
      headers: ['idempotent-replayed'],
      example: {
        ...exampleBatch,
        id: 'batch_01KBN5A0B1C2D3E4F5G6H7J8KM',
        model: null,
        status: 'validating',
        progress: null,
        in_progress_at: null,
        input_filename: `${exampleBatch.id}_retry.jsonl`,
        request_counts: { total: 0, completed: 0, failed: 0 },
        retry_of: exampleBatch.id,
      },
    },
    refusals: ['NOT_FOUND', 'CONFLICT', 'IDEMPOTENCY_MISMATCH'],
    limits: ['batch_limit'],
    params: batchParams,
    repeatable: true,
    usesAccount: true,
    inTurns: true,
    async handle(request, parts) {
      const { ctx, caller, params, body } = request;
      idempotencyKeyOf(ctx.req); // a wrong one is refused first, as for every route
      const ended = requireReadable(await parts.store.batches.findBatch(params.batch), fileAccessOf(caller));
      const refusal = refuseOutsideKey(caller.keyScope, { endpoint: ended.endpoint });
      if (refusal !== undefined) throw refusal;
      const batch = await createOnce(request, parts, {
        create: (claim) => retry(request, parts, { ended, claim }),
        isAskedFor: ({ retryOf, retryLines }) => retryOf === ended.id && retryLines === body.lines,
      });
      return presentBatch(batch, request);
    },
  }),
];

async function retry(
  request: Retry,
  parts: AppParts,
  { ended, claim }: { ended: Batch; claim: string | undefined },
): Promise<Batch> {
  const { ctx, caller, body, planFile, now } = request;
  const { store } = parts;
  const { lines } = body;
  const { endpoint, metadata, outputSeconds, errorFile, id: retryOf } = ended;
  if (!isOver(ended)) throw new ApiError('CONFLICT', `A batch that is ${ended.state} has not ended.`);
  if (errorFile === undefined) throw noSuchLine(lines);
  const access = fileAccessOf(caller);
  const input = await findFile(store, { id: ended.inputFile, access });
  if (input === undefined || (await findFile(store, { id: errorFile, access })) === undefined) throw fileGone();
  const limits = planFile.batch;
  const copied = await parts.http.copyLines({ batch: { ...ended, errorFile }, input, lines, caller, now, limits });
  const asked = {
    endpoint,
    metadata,
    input_file_id: copied.file.id,
    completion_window: ended.completionWindow,
    output_expires_after:
      outputSeconds === undefined ? null : { anchor: 'created_at' as const, seconds: outputSeconds },
  };
  const made = newBatch({
    caller,
    file: copied.file,
    body: asked,
    errorFormat: errorFormatOf(ctx),
    now,
    windowS: limits.windowS,
  });
  try {
    const { lines: count } = copied.file;
    const batch = await insertNew(request, parts, {
      batch: { ...made, retryOf, retryLines: lines },
      lines: count,
      claim,
    });
    const isClaimed = claim === undefined || (await store.batches.findClaimedBatch(claim))?.id === batch.id;
    await (isClaimed ? copied.keep() : copied.discard());
    return batch;
  } catch (error) {
    // The store may still make the batch after it was away. Then its file has to be there; else it goes after an hour.
    if (errorStatus(toApiError(error).code) < 500) await copied.discard().catch(() => {});
    throw error;
  }
}
