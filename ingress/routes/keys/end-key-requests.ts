import { nextBatch } from '../../../shared/batches/batch-states.ts';
import type { Store } from '../../../shared/store/store.ts';
import type { RequestsToEnd } from '../../requests/requests-to-end.ts';

type Deps = { store: Pick<Store, 'batches'>; requestsToEnd: Pick<RequestsToEnd, 'add'> };

/**
 * Ends the running requests of keys that have ended, and cancels the batches that they have made. If the process dies meanwhile, a repeat
 * does the rest. The mark is first: a batch that is being created meanwhile is not listed here, and is cancelled by the request that
 * creates it.
 */
export async function endKeyRequests(
  { store, requestsToEnd }: Deps,
  { account, keyIds, at }: { account: string; keyIds: readonly string[]; at: Date },
): Promise<void> {
  await requestsToEnd.add(keyIds, at);
  const open = await store.batches.listOpenBatches([account]);
  for (const { id, keyId } of open) if (keyIds.includes(keyId)) await cancelOne(store, id, at);
}

/** Cancels a batch, unless it is being cancelled or has ended. */
export async function cancelOne(store: Deps['store'], id: string, at: Date): Promise<void> {
  await store.batches.changeBatch(id, (batch) => {
    const next = batch && nextBatch(batch, { type: 'cancel' }, at);
    return { result: undefined, ...(next && { next }) };
  });
}
