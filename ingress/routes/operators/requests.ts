import { ApiError } from '../../../shared/errors.ts';
import { pathParameter, type Stage, stateOf } from '../../request-state.ts';
import { presentForOperator } from '../../requests/present-request.ts';
import type { RequestLookUp } from '../../requests/request-look-up.ts';

/** `GET /admin/requests/{id}`: a request of any account by its id, with the backends that were called. */
export function retrieveAnyRequest({ requestLookUp }: { requestLookUp: Pick<RequestLookUp, 'findAny'> }): Stage {
  return async function retrieveAnyRequest(ctx) {
    const found = await requestLookUp.findAny(pathParameter(ctx, 'request'));
    if (found === undefined) throw noSuchRequest();
    ctx.body = presentForOperator(found.account, found.request, stateOf(ctx, 'planFile').backends);
  };
}

export function noSuchRequest(): ApiError {
  return new ApiError(
    'NOT_FOUND',
    'There is no such request. One that was refused, for example with 429 or because a queue was full, is only in the log of its ingress.',
  );
}
