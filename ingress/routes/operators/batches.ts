import type { Batch } from '../../../shared/batches/batch.ts';
import type { Store } from '../../../shared/store/store.ts';
import { presentOperatorBatch } from '../../api/present-batch.ts';
import { pathParameter, type Stage } from '../../request-state.ts';
import { noSuchBatch } from '../batches.ts';

/** `GET /admin/batches/{batch}`: a batch of any account. */
export function retrieveAnyBatch({ store }: { store: Pick<Store, 'batches'> }): Stage {
  return async function retrieveAnyBatch(ctx) {
    ctx.body = presentOperatorBatch(requireBatch(await store.batches.findBatch(pathParameter(ctx, 'batch'))));
  };
}

export function requireBatch(batch: Batch | undefined): Batch {
  if (batch === undefined) throw noSuchBatch();
  return batch;
}
