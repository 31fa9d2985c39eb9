import { z } from 'zod';
import type { Batch } from '../../shared/batches/batch.ts';
import { nextBatch } from '../../shared/batches/batch-states.ts';
import { ApiError } from '../../shared/errors.ts';
import type { Store } from '../../shared/store/store.ts';
import { limitParameter, parseQuery } from '../api/list-query.ts';
import { presentBatch } from '../api/present-batch.ts';
import { presentList } from '../api/present-list.ts';
import { type FileAccess, fileAccessOf, mayRead, requireChangeable } from '../files/file-access.ts';
import { type AppContext, pathParameter, type Stage, stateOf } from '../request-state.ts';

type BatchStores = { store: Pick<Store, 'batches'> };

const batchId = /^batch_[0-9A-HJKMNP-TV-Z]{26}$/;

export const batchesQuery = z.strictObject({
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .regex(batchId, 'expected the id of a batch')
    .optional()
    .meta({ description: 'The batch before the first one to return: `last_id` of the previous page.' }),
});

/** `GET /v1/batches`: the batches that the caller may read, newest first. `after` can be any id, because ids sort by time. */
export function listBatches({ store }: BatchStores): Stage {
  return async function listBatches(ctx) {
    const { limit, after } = parseQuery(batchesQuery, ctx.querystring);
    const { account, readsOf } = fileAccessOf(stateOf(ctx, 'caller'));
    const page = { limit: limit + 1, after, order: 'desc', keyIds: readsOf } as const;
    const found = await store.batches.listBatches(account, page);
    ctx.body = presentList({ found, limit, present: presentBatch });
  };
}

/** `GET /v1/batches/{id}`. */
export function retrieveBatch({ store }: BatchStores): Stage {
  return async function retrieveBatch(ctx) {
    const { id, access } = wantedBatch(ctx);
    ctx.body = presentBatch(requireReadable(await store.batches.findBatch(id), access));
  };
}

/** `POST /v1/batches/{id}/cancel`: changes nothing if the batch is being cancelled; `CONFLICT` if it has ended in any way. */
export function cancelBatch({ store }: BatchStores): Stage {
  return async function cancelBatch(ctx) {
    const { id, access } = wantedBatch(ctx);
    const at = new Date(stateOf(ctx, 'now'));
    const cancelled = await store.batches.changeBatch(id, (found) => {
      const batch = requireReadable(found, access);
      requireChangeable(access, batch);
      return cancelling(batch, at);
    });
    ctx.body = presentBatch(cancelled);
  };
}

/** Cancels a batch, unless it is being cancelled. `CONFLICT` if it has ended. */
export function cancelling(batch: Batch, at: Date): { result: Batch; next?: Batch } {
  if (batch.state === 'cancelling') return { result: batch };
  const next = nextBatch(batch, { type: 'cancel' }, at);
  if (next === undefined) throw new ApiError('CONFLICT', `A batch that is ${batch.state} cannot be cancelled.`);
  return { result: next, next };
}

/** A batch that the caller may not read is treated as missing. */
function requireReadable(batch: Batch | undefined, access: FileAccess): Batch {
  if (batch === undefined || !mayRead(access, batch)) throw noSuchBatch();
  return batch;
}

function wantedBatch(ctx: AppContext): { id: string; access: FileAccess } {
  const id = pathParameter(ctx, 'batch');
  if (!batchId.test(id)) throw noSuchBatch();
  return { id, access: fileAccessOf(stateOf(ctx, 'caller')) };
}

export function noSuchBatch(): ApiError {
  return new ApiError('NOT_FOUND', 'There is no such batch.');
}
