import type { RecordedChange } from '../../../../shared/account-changes/recorded-change.ts';
import type { Store } from '../../../../shared/store/store.ts';
import { parseBody } from '../../../api/json-body.ts';
import { presentOperatorBatch } from '../../../api/present-batch.ts';
import { pathParameter, type Stage, stateOf } from '../../../request-state.ts';
import { cancelling } from '../../batches.ts';
import { reasonOnly } from '../accounts/reason.ts';
import { requireBatch } from '../batches.ts';
import { byOperator, createRecordAction } from './record-action.ts';

type Deps = { store: Pick<Store, 'audit' | 'batches'>; changeRecorded: RecordedChange };

/**
 * `POST /admin/batches/{batch}/cancel`: cancels a batch of any account, as the account itself could. Nothing is changed or noted if it is
 * being cancelled; `CONFLICT` if it has ended. A batch that ends at the same moment leaves a record nevertheless.
 */
export function cancelAnyBatch({ store, changeRecorded }: Deps): Stage {
  const recordAction = createRecordAction({ store, changeRecorded });
  return async function cancelAnyBatch(ctx) {
    const { reason } = parseBody(reasonOnly, stateOf(ctx, 'body'));
    const by = byOperator(ctx, reason);
    const found = requireBatch(await store.batches.findBatch(pathParameter(ctx, 'batch')));
    const { id, account } = found;
    if (cancelling(found, by.at).next !== undefined)
      await recordAction(ctx, account, { action: { batchCancelled: id }, by });
    const cancelled = await store.batches.changeBatch(id, (batch) => cancelling(requireBatch(batch), by.at));
    ctx.body = presentOperatorBatch(cancelled);
  };
}
