import type { Log } from '../../../shared/process/log.ts';
import type { Store } from '../../../shared/store/store.ts';
import { parseQuery } from '../../api/list-query.ts';
import { type Stage, stateOf } from '../../request-state.ts';
import { answerReport } from '../../usage/answer-report.ts';
import { createPricing } from '../../usage/prices.ts';
import { allUsageQuery, reportQueryOf, topRows, usualGroupsOfAll } from '../../usage/usage-query.ts';

/**
 * `GET /admin/usage`: the usage of all accounts in a range of days, or only the rows with the most charged tokens
 * (contract.md#j1-usage-reports). It reads the details of every month that has one of these days.
 */
export function retrieveAllUsage({ store, log }: { store: Pick<Store, 'usageDetails'>; log: Log }): Stage {
  return async function retrieveAllUsage(ctx) {
    const { order, limit = topRows.usual, ...asked } = parseQuery(allUsageQuery, ctx.querystring);
    const query = reportQueryOf(asked, { now: stateOf(ctx, 'now'), usual: usualGroupsOfAll });
    const details = store.usageDetails.readAll(query.range);
    const top = order === 'charged' ? limit : undefined;
    const pricing = createPricing(stateOf(ctx, 'planFile'));
    await answerReport(ctx, { details, query, pricing, isOfOneAccount: false, top }, { log });
  };
}
