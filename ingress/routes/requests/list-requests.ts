import { z } from 'zod';
import { validationError } from '../../../shared/errors.ts';
import { usageOutcomes } from '../../../shared/store/usage/usage-record.ts';
import { limitParameter, parseQuery } from '../../api/list-query.ts';
import { type AppContext, type Stage, stateOf } from '../../request-state.ts';
import { type FoundRequest, requestIdPattern } from '../../requests/found-request.ts';
import type { RequestPage } from '../../requests/list-requests.ts';
import { presentRequest } from '../../requests/present-request.ts';
import type { RequestLookUp } from '../../requests/request-look-up.ts';

const nameLengthMax = 128;
const name = z.string().min(1).max(nameLengthMax);

export const requestsQuery = z.strictObject({
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .regex(requestIdPattern, 'expected the id of a request')
    .optional()
    .meta({ description: 'The request before the first one to return: `last_id` of the previous page.' }),
  model: name.optional().meta({ description: 'Only requests to this model, by its name in answers, not by an alias.' }),
  outcome: z.enum(usageOutcomes).optional().meta({ description: 'Only requests that have ended like this.' }),
  key_id: name.optional().meta({ description: 'Only requests with the key of this id.' }),
});

/** `GET /v1/requests`: the requests of the account, latest first (contract.md#h4-list-of-requests). */
export function listRequests({ requestLookUp }: { requestLookUp: RequestLookUp }): Stage {
  return async function listRequests(ctx) {
    const { backends } = stateOf(ctx, 'planFile');
    const page = await requestPageOf(ctx, stateOf(ctx, 'caller').account, requestLookUp);
    ctx.body = presentPage(page, (request) => presentRequest(request, backends));
  };
}

/** Reads the page of the account's requests that the query asks for. */
export async function requestPageOf(
  ctx: AppContext,
  account: string,
  requestLookUp: Pick<RequestLookUp, 'find' | 'list'>,
): Promise<RequestPage> {
  const { limit, after, model, outcome, key_id: keyId } = parseQuery(requestsQuery, ctx.querystring);
  const before = after === undefined ? undefined : await requestLookUp.find(account, after);
  if (after !== undefined && before === undefined) {
    throw validationError([{ path: 'after', message: 'there is no such request' }]);
  }
  return requestLookUp.list(account, { limit, before, filter: { model, outcome, keyId } });
}

export function presentPage(
  { requests, last, hasMore }: RequestPage,
  present: (request: FoundRequest) => object,
): object {
  const [first_id, last_id] = [requests[0]?.requestId ?? null, last?.requestId ?? null];
  return { object: 'list', data: requests.map(present), first_id, last_id, has_more: hasMore };
}
