import { ApiError } from '../../../shared/errors.ts';
import { pathParameter, type Stage, stateOf } from '../../request-state.ts';
import { presentRequest } from '../../requests/present-request.ts';
import type { RequestLookUp } from '../../requests/request-look-up.ts';

/** `GET /v1/requests/{id}`: by the id of the request or of its answer (contract.md#h3-find-a-request). */
export function retrieveRequest({ requestLookUp }: { requestLookUp: Pick<RequestLookUp, 'find'> }): Stage {
  return async function retrieveRequest(ctx) {
    const found = await requestLookUp.find(stateOf(ctx, 'caller').account, pathParameter(ctx, 'request'));
    if (found === undefined) throw new ApiError('NOT_FOUND', 'There is no such request.');
    ctx.body = presentRequest(found, stateOf(ctx, 'planFile').backends);
  };
}
