import type { Log } from '../../shared/process/log.ts';
import { monthOf } from '../../shared/store/accounts/account.ts';
import type { Store } from '../../shared/store/store.ts';
import type { UsageDay } from '../../shared/store/usage/usage-details.ts';
import { totalOf } from '../../shared/store/usage/usage-sums.ts';
import { parseQuery } from '../api/list-query.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';
import { answerReport } from '../usage/answer-report.ts';
import { createPricing } from '../usage/prices.ts';
import { daysOfMonth, type ReportQuery, reportQueryOf, usageQuery, usualGroups } from '../usage/usage-query.ts';
import type { Usage } from '../usage/usage-schemas.ts';

type Deps = { store: Pick<Store, 'usage'>; log: Log };

/**
 * `GET /billing/usage`: the caller's usage that the store has so far (contract.md#j1-usage-reports): of a month, in total and by day and
 * model, or of a range of days by other groups.
 */
export function retrieveUsage(deps: Deps): Stage {
  return async function retrieveUsage(ctx) {
    const { account } = stateOf(ctx, 'caller');
    const asked = askedUsage(ctx);
    if ('month' in asked)
      ctx.body = presentUsage(asked.month, await deps.store.usage.findUsageDays(account, asked.month));
    else await answerAccountReport(ctx, { account, query: asked.report }, deps);
  };
}

/** What the query asks for. The current month, by Redis's clock, if it is empty. */
export function askedUsage(ctx: AppContext): { month: string } | { report: ReportQuery } {
  const { month, format, ...asked } = parseQuery(usageQuery, ctx.querystring);
  const now = stateOf(ctx, 'now');
  const reportOf = (range: typeof asked) => ({
    report: reportQueryOf({ ...range, format }, { now, usual: usualGroups }),
  });
  if (Object.values(asked).some((value) => value !== undefined)) return reportOf(asked);
  const shown = month ?? monthOf(new Date(now));
  return format === 'csv' ? reportOf(daysOfMonth(shown)) : { month: shown };
}

export function answerAccountReport(
  ctx: AppContext,
  { account, query }: { account: string; query: ReportQuery },
  { store, log }: Omit<Deps, 'store'> & { store: Pick<Store, 'usage'> },
): Promise<void> {
  const details = store.usage.details.read({ account, ...query.range });
  return answerReport(
    ctx,
    { details, query, pricing: createPricing(stateOf(ctx, 'planFile')), isOfOneAccount: true },
    { log },
  );
}

/** The total is that of the days, which are read together. The store's sum is read at another time. */
export function presentUsage(month: string, days: UsageDay[]): Usage {
  return { month, unit: 'tokens', total: totalOf(days), data: days };
}
