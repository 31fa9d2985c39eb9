import { type Stage, stateOf } from '../../../request-state.ts';
import { presentForOperator } from '../../../requests/present-request.ts';
import type { RequestLookUp } from '../../../requests/request-look-up.ts';
import { presentPage, requestPageOf } from '../../requests/list-requests.ts';
import { accountOf, type KnownAccountDeps, requireKnown } from './named-account.ts';

type Deps = KnownAccountDeps & { requestLookUp: Pick<RequestLookUp, 'find' | 'list'> };

/** `GET /admin/accounts/{account}/requests`: the requests of any account, latest first, with the backends that were called. */
export function listAccountRequests(deps: Deps): Stage {
  return async function listAccountRequests(ctx) {
    const account = accountOf(ctx);
    const page = await requestPageOf(ctx, account, deps.requestLookUp);
    if (page.last === undefined) await requireKnown(account, deps);
    const { backends } = stateOf(ctx, 'planFile');
    ctx.body = presentPage(page, (request) => presentForOperator(account, request, backends));
  };
}
