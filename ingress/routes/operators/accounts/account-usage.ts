import type { Log } from '../../../../shared/process/log.ts';
import type { Store } from '../../../../shared/store/store.ts';
import type { DayRange } from '../../../../shared/store/usage/usage-store.ts';
import type { Stage } from '../../../request-state.ts';
import { answerAccountReport, askedUsage, presentUsage } from '../../usage.ts';
import { accountOf, noSuchAccount } from './named-account.ts';

/**
 * `GET /admin/accounts/{account}/usage`: the usage of any account. An account that only submitted batches with a sign-in token has
 * usage and no account document. `NOT_FOUND` for an account that has neither.
 */
export function retrieveAccountUsage({ store, log }: { store: Pick<Store, 'accounts' | 'usage'>; log: Log }): Stage {
  return async function retrieveAccountUsage(ctx) {
    const asked = askedUsage(ctx);
    const account = accountOf(ctx);
    const known = await store.accounts.findAccount(account);
    if ('report' in asked) {
      if (known === undefined && !(await hasUsage(account, asked.report.range))) throw noSuchAccount();
      return answerAccountReport(ctx, { account, query: asked.report }, { store, log });
    }
    const days = await store.usage.findUsageDays(account, asked.month);
    if (known === undefined && days.length === 0) throw noSuchAccount();
    ctx.body = presentUsage(asked.month, days);
  };

  async function hasUsage(account: string, range: DayRange): Promise<boolean> {
    for await (const piece of store.usage.details.read({ account, ...range })) if (piece.length > 0) return true;
    return false;
  }
}
