import { z } from 'zod';
import type { LimitCounters } from '../../shared/limits/admission.ts';
import { allowanceOf, quotaOf } from '../../shared/limits/quota.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { redisUnavailable } from '../../shared/redis/connections.ts';
import { leasesKey } from '../../shared/redis/keys.ts';
import { type Account, accountStatusOf, type Caller } from '../../shared/store/records/account.ts';
import { count, date, limit } from '../api/response-fields.ts';
import { named, type Route, route } from '../api/route.ts';
import type { AppParts } from '../app-parts.ts';
import { accountParameter, findPresent, noSuchAccount } from './accounts.ts';

export const quotaSchema = named(
  'Quota',
  z.strictObject({
    plan: z.string(),
    unit: z.literal('tokens'),
    period: z.strictObject({ start: date, end: date }),
    limit: count.nullable().meta({ description: 'Includes top-ups; null: no limit.' }),
    used: count,
    reserved: count,
    remaining: count.nullable(),
    overageEnabled: z.boolean(),
    overageUsed: count,
    overageLimit: count.nullable().meta({
      description:
        "The most overage in a month, if it is on: the lower one of the plan's bound and the account's own; null: none.",
    }),
    overageTokensMax: count.nullable().meta({ description: "The account's own bound of overage; null: none." }),
    topUp: count,
    resetDate: date,
    topupUrl: z.string(),
  }),
);

export type Quota = z.infer<typeof quotaSchema>;

const useOfLimit = z.strictObject({ limit, used: count });
const highest = count.meta({ description: 'The highest of about the last hour.' });

const useInMinute = useOfLimit.extend({
  highest,
  resetMs: count.meta({ description: 'Milliseconds until all of it has left the last 60 seconds.' }),
});

const limitsInUseSchema = named(
  'LimitsInUse',
  z.strictObject({
    plan: z.string(),
    requestsPerMinute: useInMinute,
    tokensPerMinute: useInMinute,
    requestsPerDay: useOfLimit,
    requestsAtOnce: useOfLimit.extend({ highest }),
    batchRequestsAtOnce: useOfLimit,
  }),
);

export type LimitsInUse = z.infer<typeof limitsInUseSchema>;

export const exampleQuota = {
  plan: 'free',
  unit: 'tokens',
  period: { start: '2026-03-01', end: '2026-04-01' },
  limit: 1000000,
  used: 42,
  reserved: 0,
  remaining: 999958,
  overageEnabled: false,
  overageUsed: 0,
  overageLimit: null,
  overageTokensMax: null,
  topUp: 0,
  resetDate: '2026-04-01',
  topupUrl: 'https://billing.example.com/top-up',
} as const;

const exampleLimits = {
  plan: 'free',
  requestsPerMinute: { limit: 20, used: 3, highest: 14, resetMs: 41000 },
  tokensPerMinute: { limit: 60000, used: 1250, highest: 22100, resetMs: 41000 },
  requestsPerDay: { limit: null, used: 57 },
  requestsAtOnce: { limit: 4, used: 1, highest: 3 },
  batchRequestsAtOnce: { limit: 8, used: 0 },
};

export const quotaRoutes: readonly Route[] = [
  /** The caller's quota and usage of this month, in tokens (contract.md#e5-quota-route). */
  route({
    id: 'retrieveQuota',
    method: 'GET',
    path: '/billing/quota',
    access: 'either',
    tag: 'Billing',
    summary: 'Retrieve the quota of the account',
    answers: {
      description: 'The quota and usage of this month, in tokens.',
      schema: quotaSchema,
      example: exampleQuota,
    },
    counted: true,
    async handle(request, { http }) {
      return presentQuota(request, http.topupUrl);
    },
  }),
  /**
   * How much of each limit of the plan the account uses now, by the counters that admission decides with. The tokens
   * of the month are in `GET /billing/quota`.
   */
  route({
    id: 'retrieveLimits',
    method: 'GET',
    path: '/billing/limits',
    access: 'either',
    tag: 'Billing',
    summary: 'Retrieve the limits in use now',
    description:
      'How much of each limit of the plan the account uses: in the last 60 seconds, today (UTC), and at this moment. A limit of null is no limit. The quota of the month has a route of its own.',
    answers: { description: 'The limits and their use.', schema: limitsInUseSchema, example: exampleLimits },
    counted: true,
    handle: (request, parts) => limitsInUse(request, parts),
  }),
  /** The month of any account, as it sees it itself. */
  route({
    id: 'retrieveAccountQuota',
    method: 'GET',
    path: '/admin/accounts/:account/quota',
    access: 'operator',
    tag: 'Operators',
    summary: 'Retrieve the quota of an account',
    description: 'As the account itself sees it.',
    answers: {
      description: 'The quota and usage of this month, in tokens.',
      schema: quotaSchema,
      example: exampleQuota,
    },
    refusals: ['NOT_FOUND'],
    params: { account: accountParameter },
    async handle({ params, planFile }, parts) {
      return presentQuota(await countersOf(params.account, planFile, parts), parts.http.topupUrl);
    },
  }),
  /** The limits in use of any account, as it sees them itself. */
  route({
    id: 'retrieveAccountLimits',
    method: 'GET',
    path: '/admin/accounts/:account/limits',
    access: 'operator',
    tag: 'Operators',
    summary: 'Retrieve the limits that an account uses now',
    description: 'As the account itself sees them.',
    answers: { description: 'The limits and their use.', schema: limitsInUseSchema, example: exampleLimits },
    refusals: ['NOT_FOUND'],
    params: { account: accountParameter },
    async handle({ params, planFile }, parts) {
      return limitsInUse(await countersOf(params.account, planFile, parts), parts);
    },
  }),
];

/** What an account may use and has used, in its current plan file. */
type CallerCounters = { caller: Caller; counters: LimitCounters; planFile: PlanFile };

/** `changed`: the account of the caller after a change that this request has made. */
export function presentQuota(
  { caller: checked, counters, planFile }: CallerCounters,
  topupUrl: string,
  changed?: Account,
): Quota {
  const { account } = checked;
  const caller: Caller = changed === undefined ? checked : { account, ...accountStatusOf(changed) };
  const quota = quotaOf(counters, allowanceOf(caller, planFile));
  const { period, limit, chargedTokens: used, reservedTokens: reserved, overageTokens: overageUsed, ...rest } = quota;
  const { plan, overageEnabled, overageTokensMax = null } = caller;
  const tokens = { limit, used, reserved, overageUsed, ...rest };
  return { plan, unit: 'tokens', period, ...tokens, overageEnabled, overageTokensMax, resetDate: period.end, topupUrl };
}

/** Also counts the account's leases, and reads its highest use: more calls to Redis. */
async function limitsInUse(
  { caller: { account, plan }, counters: { lastMinute, dayRequests }, planFile }: CallerCounters,
  { redis, authentication: { limitPeaks } }: Pick<AppParts, 'redis' | 'authentication'>,
): Promise<LimitsInUse> {
  const limits = planFile.plans[plan];
  const leases = [leasesKey(account), leasesKey(account, 'batch')].map((key) => redis.hlen(key));
  const [[running = 0, lines = 0], peaks] = await redisUnavailable(
    Promise.all([Promise.all(leases), limitPeaks.read(account)]),
  );
  // What a request has used since the last admission is not noted yet.
  const highestOf = (peak: number, used: number) => Math.max(peak, used);
  const { requests, tokens, resetMs } = lastMinute;
  return {
    plan,
    requestsPerMinute: {
      limit: limits?.requestsPerMinute ?? null,
      used: requests,
      highest: highestOf(peaks.requests, requests),
      resetMs,
    },
    tokensPerMinute: {
      limit: limits?.tokensPerMinute ?? null,
      used: tokens,
      highest: highestOf(peaks.tokens, tokens),
      resetMs,
    },
    requestsPerDay: { limit: limits?.requestsPerDay ?? null, used: dayRequests },
    requestsAtOnce: { limit: limits?.requestsAtOnce ?? null, used: running, highest: highestOf(peaks.atOnce, running) },
    batchRequestsAtOnce: { limit: limits?.batchRequestsAtOnce ?? null, used: lines },
  };
}

/** The counters of an unknown name would be created by reading them. */
async function countersOf(
  account: string,
  planFile: PlanFile,
  { store, operators }: Pick<AppParts, 'store' | 'operators'>,
): Promise<CallerCounters> {
  if ((await findPresent(store, account)) === undefined) throw noSuchAccount();
  return { ...(await operators.readCountersOf(account)), planFile };
}
