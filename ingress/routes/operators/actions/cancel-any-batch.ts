import type { RecordedChange } from '../../../../shared/account-changes/recorded-change.ts';
import type { Batch } from '../../../../shared/batches/batch.ts';
import type { Store } from '../../../../shared/store/store.ts';
import { parseBody } from '../../../api/json-body.ts';
import { pathParameter, type Stage, stateOf } from '../../../request-state.ts';
import { cancelling, noSuchBatch } from '../../batches.ts';
import { presentOperatorBatch } from '../accounts.ts';
import { reasonOnly } from '../reason.ts';
import { byOperator, recordAction } from './record-action.ts';

type Deps = { store: Pick<Store, 'batches'>; changeRecorded: RecordedChange };

/**
 * `POST /admin/batches/{batch}/cancel`: cancels a batch of any account, as the account itself could. Nothing is changed or noted if it is
 * being cancelled; `CONFLICT` if it has ended. A batch that ends at the same moment leaves a record nevertheless.
 */
export function cancelAnyBatch({ store, changeRecorded }: Deps): Stage {
  return async function cancelAnyBatch(ctx) {
    const { reason } = parseBody(reasonOnly, stateOf(ctx, 'body'));
    const by = byOperator(ctx, reason);
    const found = requireBatch(await store.batches.findBatch(pathParameter(ctx, 'batch')));
    const { id, account } = found;
    if (cancelling(found, by.at).next !== undefined) {
      const unknown = { id: account, plan: stateOf(ctx, 'planFile').defaultPlan };
      const decide = recordAction({ action: { batchCancelled: id }, by, unknown });
      await changeRecorded(account, decide, { requestId: stateOf(ctx, 'requestId') });
    }
    const cancelled = await store.batches.changeBatch(id, (batch) => cancelling(requireBatch(batch), by.at));
    ctx.body = presentOperatorBatch(cancelled);
  };
}

function requireBatch(batch: Batch | undefined): Batch {
  if (batch === undefined) throw noSuchBatch();
  return batch;
}
