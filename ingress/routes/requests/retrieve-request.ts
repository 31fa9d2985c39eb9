import { ApiError } from '../../../shared/errors.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import { pathParameter, type Stage, stateOf } from '../../request-state.ts';
import { presentRequest } from '../../requests/present-request.ts';
import type { RequestLookUp } from '../../requests/request-look-up.ts';

/** `GET /v1/requests/{id}`: by the id of the request or of its answer (contract.md#h3-find-a-request). */
export function retrieveRequest({
  requestLookUp,
  planFile,
}: {
  requestLookUp: Pick<RequestLookUp, 'find'>;
  planFile: Pick<PlanFile, 'backends'>;
}): Stage {
  return async function retrieveRequest(ctx) {
    const found = await requestLookUp.find(stateOf(ctx, 'caller').account, pathParameter(ctx, 'request'));
    if (found === undefined) throw new ApiError('NOT_FOUND', 'There is no such request.');
    ctx.body = presentRequest(found, planFile.backends);
  };
}
