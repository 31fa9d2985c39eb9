import type { RecordedChange } from '../../../../shared/account-changes/recorded-change.ts';
import { ApiError } from '../../../../shared/errors.ts';
import type { Store } from '../../../../shared/store/store.ts';
import { parseBody } from '../../../api/json-body.ts';
import { pathParameter, type Stage, stateOf } from '../../../request-state.ts';
import { isOfLine } from '../../../requests/found-request.ts';
import { presentForOperator } from '../../../requests/present-request.ts';
import type { RequestLookUp } from '../../../requests/request-look-up.ts';
import type { RequestsToEnd } from '../../../requests/requests-to-end.ts';
import { reasonOnly } from '../accounts/reason.ts';
import { noSuchRequest } from '../requests.ts';
import { byOperator, createRecordAction } from './record-action.ts';

type Deps = {
  requestLookUp: Pick<RequestLookUp, 'findAny'>;
  requestsToEnd: Pick<RequestsToEnd, 'add'>;
  store: Pick<Store, 'audit'>;
  changeRecorded: RecordedChange;
};

/**
 * `POST /admin/requests/{id}/cancel`: ends a request of any account within 2 s (contract.md#l9-requests-that-operators-end). Returns it as
 * it is now; one that has ended stays as it is, and leaves no record. `CONFLICT` for a line of a batch, which would be sent again.
 */
export function endRequest({ requestLookUp, requestsToEnd, ...recording }: Deps): Stage {
  const recordAction = createRecordAction(recording);
  return async function endRequest(ctx) {
    const { reason } = parseBody(reasonOnly, stateOf(ctx, 'body'));
    const found = await requestLookUp.findAny(pathParameter(ctx, 'request'));
    if (found === undefined) throw noSuchRequest();
    const { account, request } = found;
    if (isOfLine(request.requestId)) throw lineOfBatch();
    if (request.state !== 'ended') {
      const by = byOperator(ctx, reason);
      await recordAction(ctx, account, { action: { requestEnded: request.requestId }, by });
      await requestsToEnd.add([request.requestId], by.at);
    }
    ctx.body = presentForOperator(account, request, stateOf(ctx, 'planFile').backends);
  };
}

function lineOfBatch(): ApiError {
  return new ApiError('CONFLICT', 'This is a line of a batch, and would be sent again. Cancel its batch.');
}
