import { topUpCodeForm } from '../../callers/top-up-code-text.ts';
import { usageQuery } from '../../usage/usage-query.ts';
import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';

const counts = {
  requests: 3,
  failed: 1,
  cancelled: 0,
  promptTokens: 24,
  completionTokens: 18,
  chargedTokens: 42,
  overageTokens: 0,
};

export const usage = {
  month: '2026-03',
  unit: 'tokens',
  total: counts,
  data: [{ day: '2026-03-02', model: 'small-chat', ...counts }],
};

const sums = { ...counts, cachedTokens: 6, cost: '0.00001395', unpricedTokens: 0 };
const range = { start: '2026-03-01', end: '2026-03-31', unit: 'tokens', currency: 'USD', total: sums };

/** Reports, with what the answers of the routes for them have in common. */
export const report = {
  ...range,
  groupBy: ['day', 'key'],
  data: [{ day: '2026-03-02', key: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA', ...sums }],
};
export const allReport = { ...range, groupBy: ['account'], data: [{ account: 'user:alice', ...sums }] };
export const csv = `day,model,requests,failed,cancelled,promptTokens,cachedTokens,completionTokens,chargedTokens,overageTokens\r
2026-03-02,small-chat,3,1,0,24,6,18,42,0\r
`;
export const aboutReports = `With \`start\`, \`end\` or \`group_by\` it is a report: exact sums of days, at most 10,000 rows in JSON. With \`format=csv\` it is a file of any length. If the rest of the file cannot be read, the connection is closed before its end. With prices in the plan file, it has the cost of each row.`;

export const plan = {
  plan: 'free',
  requestsPerMinute: 20,
  tokensPerMinute: 60_000,
  tokensPerMonth: 1_000_000,
  overage: 'self-service',
  overageTokensPerMonth: null,
  requestsPerDay: null,
  requestsAtOnce: 4,
  batchRequestsAtOnce: 8,
  batchTokensWaiting: 2_000_000,
  models: ['small-chat'],
};

export const quota = {
  plan: 'free',
  unit: 'tokens',
  period: { start: '2026-03-01', end: '2026-04-01' },
  limit: 1_000_000,
  used: 42,
  reserved: 0,
  remaining: 999_958,
  overageEnabled: false,
  overageUsed: 0,
  overageLimit: null,
  topUp: 0,
  resetDate: '2026-04-01',
  topupUrl: 'https://billing.example.com/top-up',
} as const;

export const limitsInUse = {
  plan: 'free',
  requestsPerMinute: { limit: 20, used: 3, resetMs: 41_000 },
  tokensPerMinute: { limit: 60_000, used: 1_250, resetMs: 41_000 },
  requestsPerDay: { limit: null, used: 57 },
  requestsAtOnce: { limit: 4, used: 1 },
  batchRequestsAtOnce: { limit: 8, used: 0 },
};

export const billingRoutes = {
  'GET /billing/quota': {
    id: 'retrieveQuota',
    tag: 'Billing',
    summary: 'Retrieve the quota of the account',
    credential: 'either',
    answer: {
      description: 'The quota and usage of this month, in tokens.',
      schema: 'Quota',
      example: quota,
    },
    refusals: refusedHead.key,
  },
  'GET /billing/limits': {
    id: 'retrieveLimits',
    tag: 'Billing',
    summary: 'Retrieve the limits in use now',
    description:
      'How much of each limit of the plan the account uses: in the last 60 seconds, today (UTC), and at this moment. A limit of null is no limit. The quota of the month has a route of its own.',
    credential: 'either',
    answer: { description: 'The limits and their use.', schema: 'LimitsInUse', example: limitsInUse },
    refusals: refusedHead.key,
  },
  'PATCH /billing/overage': {
    id: 'updateOverage',
    tag: 'Billing',
    summary: 'Turn overage on or off',
    description:
      'Applies from the next request of the account. `FORBIDDEN` if the plan leaves overage to the operator. Adds an audit record, unless nothing changes.',
    credential: 'signIn',
    body: { schema: 'Overage', example: { enabled: true } },
    answer: {
      description: 'The quota after the change.',
      schema: 'Quota',
      example: { ...quota, overageEnabled: true },
    },
    refusals: [...refusedHead.signIn, ...refusedBody, 'rate_limit_exceeded'],
    limits: ['settings_limit'],
  },
  'POST /billing/top-ups': {
    id: 'redeemTopUpCode',
    tag: 'Billing',
    summary: 'Redeem a top-up code',
    description:
      'Adds the tokens of the code to the allowance of this month, once. Redeeming it again changes nothing. `CONFLICT`: another account has redeemed it, or it was revoked or has expired. `NOT_FOUND`: there is no such code.',
    credential: 'signIn',
    body: { schema: 'TopUp', example: { code: topUpCodeForm } },
    answer: {
      description: 'The quota after the top-up.',
      schema: 'Quota',
      example: { ...quota, limit: 1_500_000, remaining: 1_499_958, topUp: 500_000 },
    },
    refusals: [...refusedHead.signIn, ...refusedBody, 'NOT_FOUND', 'CONFLICT', 'rate_limit_exceeded'],
    limits: ['code_failures', 'settings_limit'],
  },
  'GET /billing/usage': {
    id: 'retrieveUsage',
    tag: 'Billing',
    summary: 'Retrieve the usage of the account',
    description: `Of a month, in total and by day and model. ${aboutReports} A request is counted a few seconds after it ends. Most \`failed\` requests are not charged. Interrupted streams are charged for their prompt and the delivered part; batch lines whose answer was too large are charged, too.`,
    credential: 'either',
    query: usageQuery,
    answer: { description: 'The usage; zeros if there is none.', schema: 'UsageOrReport', example: report, csv },
    refusals: refusedHead.key,
  },
  'GET /billing/plan': {
    id: 'retrievePlan',
    tag: 'Billing',
    summary: 'Retrieve the plan of the caller',
    description: 'Its limits and models; a limit of null is no limit.',
    credential: 'either',
    answer: { description: 'The plan.', schema: 'Plan', example: plan },
    refusals: refusedHead.key,
  },
} as const satisfies RouteDescriptions;
