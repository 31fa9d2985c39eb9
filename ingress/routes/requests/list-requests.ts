import { z } from 'zod';
import { validationError } from '../../../shared/errors.ts';
import { usageOutcomes } from '../../../shared/store/usage/usage-record.ts';
import { limitParameter, parseQuery } from '../../api/list-query.ts';
import { type Stage, stateOf } from '../../request-state.ts';
import { requestIdPattern } from '../../requests/found-request.ts';
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
    const { limit, after, model, outcome, key_id: keyId } = parseQuery(requestsQuery, ctx.querystring);
    const { account } = stateOf(ctx, 'caller');
    const before = after === undefined ? undefined : await requestLookUp.find(account, after);
    if (after !== undefined && before === undefined) {
      throw validationError([{ path: 'after', message: 'there is no such request' }]);
    }
    const { requests, last, hasMore } = await requestLookUp.list(account, {
      limit,
      before,
      filter: { model, outcome, keyId },
    });
    const data = requests.map((request) => presentRequest(request, stateOf(ctx, 'planFile').backends));
    const [first_id, last_id] = [data[0]?.id ?? null, last?.requestId ?? null];
    ctx.body = { object: 'list', data, first_id, last_id, has_more: hasMore };
  };
}
