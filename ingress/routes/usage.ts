import { z } from 'zod';
import { monthOf } from '../../shared/store/accounts/account.ts';
import type { Store } from '../../shared/store/store.ts';
import { totalOf } from '../../shared/store/usage/usage-counts.ts';
import type { UsageDay } from '../../shared/store/usage/usage-details.ts';
import { parseQuery } from '../api/list-query.ts';
import type { Usage } from '../api/response-schemas.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';

export const usageQuery = z.strictObject({
  month: z
    .string()
    .regex(/^\d{4}-(0[1-9]|1[0-2])$/, 'expected a month as YYYY-MM')
    .optional()
    .meta({ description: 'A month, UTC; the current month by default.', examples: ['2026-03'] }),
});

/** `GET /billing/usage`: the caller's usage of a month that the store has so far, in total and by day and model. */
export function retrieveUsage({ store }: { store: Pick<Store, 'findUsageDays'> }): Stage {
  return async function retrieveUsage(ctx) {
    const month = monthIn(ctx);
    ctx.body = presentUsage(month, await store.findUsageDays(stateOf(ctx, 'caller').account, month));
  };
}

/** Returns the month of the query, or the current one by Redis's clock. */
export function monthIn(ctx: AppContext): string {
  const { month } = parseQuery(usageQuery, ctx.querystring);
  return month ?? monthOf(new Date(stateOf(ctx, 'now')));
}

/** The total is that of the days, which are read together. The store's sum is read at another time. */
export function presentUsage(month: string, days: UsageDay[]): Usage {
  return { month, unit: 'tokens', total: totalOf(days), data: days };
}
