import type { Log } from '../../../shared/process/log.ts';
import type { Store } from '../../../shared/store/store.ts';
import { parseQuery } from '../../api/list-query.ts';
import { type Stage, stateOf } from '../../request-state.ts';
import { answerReport } from '../../usage/answer-report.ts';
import { createPricing } from '../../usage/prices.ts';
import { allUsageQuery, reportQueryOf, topRows, usualGroupsOfAll } from '../../usage/usage-query.ts';
import type { UsageReport } from '../../usage/usage-schemas.ts';
import { named } from './accounts/named-account.ts';

/**
 * `GET /admin/usage`: the usage of all accounts in a range of days, or only the rows with the most charged tokens
 * (contract.md#j1-usage-reports). It reads the details of every month that has one of these days.
 */
export function retrieveAllUsage({ store, log }: { store: Pick<Store, 'usage' | 'accounts'>; log: Log }): Stage {
  return async function retrieveAllUsage(ctx) {
    const { order, limit = topRows.usual, ...asked } = parseQuery(allUsageQuery, ctx.querystring);
    const query = reportQueryOf(asked, { now: stateOf(ctx, 'now'), usual: usualGroupsOfAll });
    const details = store.usage.details.readAll(query.range);
    const top = order === 'charged' ? limit : undefined;
    const pricing = createPricing(stateOf(ctx, 'planFile'));
    await answerReport(ctx, { details, query, pricing, isOfOneAccount: false, top }, { log });
    if (query.format !== 'csv') ctx.body = await withNames(ctx.body as UsageReport, store); // it is the report's
  };
}

/** A file has no names: it is kept, and names change. */
async function withNames(report: UsageReport, { accounts: store }: Pick<Store, 'accounts'>): Promise<UsageReport> {
  const accounts = report.data.flatMap(({ account }) => account ?? []);
  if (accounts.length === 0) return report;
  const found = await store.findNames([...new Set(accounts)]);
  return { ...report, data: report.data.map((row) => ({ ...row, ...named(found, row.account ?? '') })) };
}
