import type { Store } from '../../../shared/store/store.ts';
import { type Stage, stateOf } from '../../request-state.ts';
import { presentForOperator } from '../../requests/present-request.ts';
import type { RequestLookUp } from '../../requests/request-look-up.ts';
import { presentPage, requestPageOf } from '../requests/list-requests.ts';
import { accountOf, noSuchAccount } from './accounts.ts';

type Deps = { requestLookUp: Pick<RequestLookUp, 'find' | 'list'>; store: Pick<Store, 'findAccount'> };

/**
 * `GET /admin/accounts/{account}/requests`: the requests of any account, latest first, with the backends that were called. An account that
 * has used only sign-in tokens can have requests and no account document. `NOT_FOUND` for an account that has neither.
 */
export function listAccountRequests({ requestLookUp, store }: Deps): Stage {
  return async function listAccountRequests(ctx) {
    const account = accountOf(ctx);
    const page = await requestPageOf(ctx, account, requestLookUp);
    if (page.last === undefined && !(await isKnown(account))) throw noSuchAccount();
    const { backends } = stateOf(ctx, 'planFile');
    ctx.body = presentPage(page, (request) => presentForOperator(account, request, backends));
  };

  async function isKnown(account: string): Promise<boolean> {
    if ((await store.findAccount(account)) !== undefined) return true;
    return (await requestLookUp.list(account, { limit: 1, filter: {} })).last !== undefined;
  }
}
