import type { z } from 'zod';
import type { Log } from '../../shared/process/log.ts';
import { monthOf } from '../../shared/store/records/account.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { totalOf } from '../../shared/store/usage/usage-record.ts';
import type { UsageDay } from '../../shared/store/usage/usage-tables.ts';
import { nameFieldOf } from '../api/response-fields.ts';
import { type Route, type RouteRequest, route } from '../api/route.ts';
import type { HourSums } from '../requests/hour-sums.ts';
import { asDetail, asDetailOf, createPricing, type ReportedDetail } from '../usage/report-rows.ts';
import {
  allReportQueryOf,
  allUsageQuery,
  daysOfMonth,
  type ReportQuery,
  reportQueryOf,
  topRows,
  usageQuery,
  usualGroups,
  usualGroupsOfAll,
} from '../usage/usage-query.ts';
import {
  answerReport,
  type Usage,
  type UsageReport,
  usageOrReportSchema,
  usageReportSchema,
  usageSchema,
} from '../usage/usage-report.ts';
import { accountParameter, noSuchAccount } from './accounts.ts';

const exampleCounts = {
  requests: 3,
  failed: 1,
  cancelled: 0,
  promptTokens: 24,
  completionTokens: 18,
  chargedTokens: 42,
  overageTokens: 0,
};

const exampleUsage = {
  month: '2026-03',
  unit: 'tokens',
  total: exampleCounts,
  data: [{ day: '2026-03-02', model: 'small-chat', ...exampleCounts }],
};

const exampleSums = { ...exampleCounts, cachedTokens: 6, cost: '0.00001395', unpricedTokens: 0 };

const exampleRange = {
  rowCount: 1,
  start: '2026-03-01',
  end: '2026-03-31',
  unit: 'tokens',
  currency: 'USD',
  total: exampleSums,
};

const exampleReport = {
  ...exampleRange,
  groupBy: ['day', 'key'],
  data: [{ day: '2026-03-02', key: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA', ...exampleSums }],
};

const exampleReportOfAll = {
  ...exampleRange,
  groupBy: ['account'],
  data: [{ account: 'user:alice', ...exampleSums }],
};

const exampleCsv = `day,model,requests,failed,cancelled,promptTokens,cachedTokens,completionTokens,chargedTokens,overageTokens\r
2026-03-02,small-chat,3,1,0,24,6,18,42,0\r
`;

const aboutReports = `With \`start\`, \`end\` or \`group_by\` it is a report: exact sums of days, at most 10,000 rows in JSON. With \`format=csv\` it is a file of any length. If the rest of the file cannot be read, the connection is closed before its end. With prices in the plan file, it has the cost of each row.`;

export const usageRoutes: readonly Route[] = [
  /**
   * The caller's usage that the store has so far (contract.md#j1-usage-reports): of a month, in total and by day and
   * model, or of a range of days by other groups.
   */
  route({
    id: 'retrieveUsage',
    method: 'GET',
    path: '/billing/usage',
    access: 'either',
    tag: 'Billing',
    summary: 'Retrieve the usage of the account',
    description: `Of a month, in total and by day and model. ${aboutReports} A request is counted a few seconds after it ends. Most \`failed\` requests are not charged. Interrupted streams are charged for their prompt and the delivered part; batch lines whose answer was too large are charged, too.`,
    query: usageQuery,
    answers: {
      description: 'The usage; zeros if there is none.',
      schema: usageOrReportSchema,
      parts: [usageSchema, usageReportSchema],
      example: exampleReport,
      csv: exampleCsv,
    },
    inTurns: true,
    async handle(request, parts) {
      const { account } = request.caller;
      const wanted = wantedUsage(request.query, request.now);
      if ('report' in wanted) return answerAccountReport(request, { account, query: wanted.report }, parts);
      return presentUsage(wanted.month, await parts.store.usage.findUsageDays(account, wanted.month));
    },
  }),
  /**
   * The usage of any account. An account that only submitted batches with a sign-in token has
   * usage and no account document. `NOT_FOUND` for an account that has neither.
   */
  route({
    id: 'retrieveAccountUsage',
    method: 'GET',
    path: '/admin/accounts/:account/usage',
    access: 'operator',
    tag: 'Operators',
    summary: 'Retrieve the usage of an account',
    description: aboutReports,
    query: usageQuery,
    answers: {
      description: 'The usage, as the account sees it.',
      schema: usageOrReportSchema,
      parts: [usageSchema, usageReportSchema],
      example: exampleUsage,
      csv: exampleCsv,
    },
    refusals: ['NOT_FOUND'],
    params: { account: accountParameter },
    async handle(request, parts) {
      const { store } = parts;
      const { account } = request.params;
      const wanted = wantedUsage(request.query, request.now);
      const known = await store.accounts.findAccount(account);
      if ('report' in wanted) {
        if (known === undefined && !(await hasUsage(store, account, wanted.report))) throw noSuchAccount();
        return answerAccountReport(request, { account, query: wanted.report }, parts);
      }
      const days = await store.usage.findUsageDays(account, wanted.month);
      if (known === undefined && days.length === 0) throw noSuchAccount();
      return presentUsage(wanted.month, days);
    },
  }),
  /**
   * The usage of all accounts in a range of days, or only the rows with the most charged tokens
   * (contract.md#j1-usage-reports). It reads the details of every month that has one of these days.
   */
  route({
    id: 'retrieveAllUsage',
    method: 'GET',
    path: '/admin/usage',
    access: 'operator',
    tag: 'Operators',
    summary: 'Retrieve the usage of all accounts',
    description:
      'A report over all accounts and devices. It reads the details of every month that has a day of the range, so it can take a minute for many accounts. Another `order` than `groups` returns only the rows with the most, and the total of all. Of hours it has at most eight days, by account, hour and model. Its `refused` requests have the model `-`, and the account `-` if the caller is not known.',
    query: allUsageQuery,
    answers: {
      description: 'The report.',
      schema: usageReportSchema,
      example: exampleReportOfAll,
      csv: exampleCsv.replaceAll(/^day/gm, 'account,day').replaceAll(/^2026/gm, 'user:alice,2026'),
    },
    async handle({ ctx, planFile, now, query: { order, limit = topRows.usual, ...wanted } }, parts) {
      const { store, log } = parts;
      const { hourSums } = parts.operators;
      const query = allReportQueryOf(wanted, { now, usual: usualGroupsOfAll });
      const details = query.unit === 'day' ? store.usage.details.readAll(query.range) : detailsOfAll(query, hourSums);
      const top = order === 'groups' ? undefined : { by: order, count: limit };
      const pricing = createPricing(planFile);
      const report = await answerReport(ctx, { details, query, pricing, isOfOneAccount: false, top }, { log });
      return report && withNames(report, store);
    },
  }),
];

type WantedUsage = { month: string } | { report: ReportQuery };

/** What the query asks for. The current month, by Redis's clock, if it is empty. */
function wantedUsage({ month, format, ...wanted }: z.output<typeof usageQuery>, now: number): WantedUsage {
  const reportOf = (range: typeof wanted) => ({
    report: reportQueryOf({ ...range, format }, { now, usual: usualGroups }),
  });
  if (Object.values(wanted).some((value) => value !== undefined)) return reportOf(wanted);
  const shown = month ?? monthOf(new Date(now));
  return format === 'csv' ? reportOf(daysOfMonth(shown)) : { month: shown };
}

type ReportRequest = Pick<RouteRequest, 'ctx' | 'planFile'>;

/** Answers with the report of one account, which is a file if that is asked for. */
function answerAccountReport(
  { ctx, planFile }: ReportRequest,
  { account, query }: { account: string; query: ReportQuery },
  { store, log }: { store: Pick<Store, 'usage'>; log: Log },
): Promise<UsageReport | undefined> {
  const details = detailsFor({ account, query }, store);
  return answerReport(ctx, { details, query, pricing: createPricing(planFile), isOfOneAccount: true }, { log });
}

/** Of hours also the refusals. */
async function* detailsFor(
  { account, query: { unit, range } }: { account: string; query: ReportQuery },
  { usage }: Pick<Store, 'usage'>,
): AsyncGenerator<ReportedDetail[]> {
  yield* usage.details.read({ account, unit, ...range });
  if (unit === 'hour')
    for await (const refusals of usage.readRefusals({ account, ...range })) yield refusals.map(asDetail);
}

/** The hours of all accounts, with the refusals. Costs depend on the model, so it is always a group of what is read. */
async function* detailsOfAll({ range, groups }: ReportQuery, hourSums: HourSums): AsyncGenerator<ReportedDetail[]> {
  const hasAccounts = groups.includes('account');
  for await (const { hour, usage, refusals } of hourSums.read(range, [
    ...(hasAccounts ? ['account' as const] : []),
    'model',
    'code',
  ])) {
    yield usage.map((sum) => asDetailOf(hour, sum));
    yield refusals.map((each) => asDetail({ start: hour, keyId: '', entry: '', ...each }));
  }
}

/** The total is that of the days, which are read together. The store's sum is read at another time. */
function presentUsage(month: string, days: UsageDay[]): Usage {
  return { month, unit: 'tokens', total: totalOf(days), data: days };
}

/** A file has no names: it is kept, and names change. */
async function withNames(report: UsageReport, { accounts: store }: Pick<Store, 'accounts'>): Promise<UsageReport> {
  const accounts = report.data.flatMap(({ account }) => account ?? []);
  if (accounts.length === 0) return report;
  const found = await store.findNames([...new Set(accounts)]);
  return { ...report, data: report.data.map((row) => ({ ...row, ...nameFieldOf(found, row.account ?? '') })) };
}

async function hasUsage({ usage }: Pick<Store, 'usage'>, account: string, query: ReportQuery): Promise<boolean> {
  const { unit, range } = query;
  for await (const piece of usage.details.read({ account, unit, ...range })) if (piece.length > 0) return true;
  return false;
}
