import { z } from 'zod';
import { ApiError } from '../../shared/errors.ts';
import { monthOf } from '../../shared/store/accounts/account.ts';
import type { Store } from '../../shared/store/store.ts';
import { noCounts, type UsageSum } from '../../shared/store/usage/usage-sums.ts';
import { parseQuery } from '../api/list-query.ts';
import type { Usage } from '../api/response-schemas.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';
import { accountOf } from './operators/accounts.ts';

type UsageSums = { store: Pick<Store, 'findUsageSum'> };

export const usageQuery = z.strictObject({
  month: z
    .string()
    .regex(/^\d{4}-(0[1-9]|1[0-2])$/, 'expected a month as YYYY-MM')
    .optional()
    .meta({ description: 'A month, UTC; the present one where it is left out.', examples: ['2026-03'] }),
});

/** `GET /billing/usage`: what the caller used in a month, in all and by day and model, as far as it is in the store. */
export function retrieveUsage({ store }: UsageSums): Stage {
  return async function retrieveUsage(ctx) {
    const month = monthIn(ctx);
    ctx.body = present(month, await store.findUsageSum(stateOf(ctx, 'caller').account, month));
  };
}

/**
 * `GET /admin/accounts/{account}/usage`: the same of any account. One that handed in batches with a sign-in token alone has
 * usage and nothing else; `NOT_FOUND` for one that has nothing.
 */
export function retrieveAccountUsage({ store }: UsageSums & { store: Pick<Store, 'findAccount'> }): Stage {
  return async function retrieveAccountUsage(ctx) {
    const month = monthIn(ctx);
    const account = accountOf(ctx);
    const [known, sum] = await Promise.all([store.findAccount(account), store.findUsageSum(account, month)]);
    if (known === undefined && sum === undefined) throw new ApiError('NOT_FOUND', 'There is no such account.');
    ctx.body = present(month, sum);
  };
}

/** Months turn by Redis's clock. */
function monthIn(ctx: AppContext): string {
  const { month } = parseQuery(usageQuery, ctx.querystring);
  return month ?? monthOf(new Date(stateOf(ctx, 'now')));
}

function present(month: string, sum: UsageSum | undefined): Usage {
  return { month, unit: 'tokens', total: sum?.total ?? noCounts, data: [...(sum?.days ?? [])] };
}
