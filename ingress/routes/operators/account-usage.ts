import { ApiError } from '../../../shared/errors.ts';
import type { Store } from '../../../shared/store/store.ts';
import type { Stage } from '../../request-state.ts';
import { monthIn, presentUsage } from '../usage.ts';
import { accountOf } from './accounts.ts';

/**
 * `GET /admin/accounts/{account}/usage`: the usage of any account. An account that only submitted batches with a sign-in token has
 * usage and no account document. `NOT_FOUND` for an account that has neither.
 */
export function retrieveAccountUsage({ store }: { store: Pick<Store, 'findAccount' | 'findUsageDays'> }): Stage {
  return async function retrieveAccountUsage(ctx) {
    const month = monthIn(ctx);
    const account = accountOf(ctx);
    const [known, days] = await Promise.all([store.findAccount(account), store.findUsageDays(account, month)]);
    if (known === undefined && days.length === 0) throw new ApiError('NOT_FOUND', 'There is no such account.');
    ctx.body = presentUsage(month, days);
  };
}
