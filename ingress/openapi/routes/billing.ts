import { usageQuery } from '../../routes/usage.ts';
import { type RouteDescriptions, refusedHead } from '../description/route-description.ts';

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

export const plan = {
  plan: 'free',
  requestsPerMinute: 20,
  tokensPerMinute: 60_000,
  tokensPerMonth: 1_000_000,
  requestsPerDay: null,
  requestsAtOnce: 4,
  batchRequestsAtOnce: 8,
  batchTokensWaiting: 2_000_000,
  models: ['small-chat'],
};

export const billingRoutes = {
  'GET /billing/quota': {
    id: 'retrieveQuota',
    tag: 'Billing',
    summary: "Retrieve where the account's month stands",
    credential: 'either',
    answer: {
      description: 'The standing, in tokens.',
      schema: 'Quota',
      example: {
        plan: 'free',
        unit: 'tokens',
        period: { start: '2026-03-01', end: '2026-04-01' },
        limit: 1_000_000,
        used: 42,
        reserved: 0,
        remaining: 999_958,
        overageEnabled: false,
        overageUsed: 0,
        topUp: 0,
        resetDate: '2026-04-01',
        topupUrl: 'https://billing.example.com/top-up',
      },
    },
    refusals: refusedHead.key,
  },
  'GET /billing/usage': {
    id: 'retrieveUsage',
    tag: 'Billing',
    summary: 'Retrieve what the account used in a month',
    description:
      'In all, and by day and model. A request counts a few seconds after it is over. Most `failed` were charged nothing; streams that broke off were, for their prompt and what was delivered, and so were lines of batches whose answer was too large.',
    credential: 'either',
    query: usageQuery,
    answer: { description: 'The usage; a month without any has zeros.', schema: 'Usage', example: usage },
    refusals: refusedHead.key,
  },
  'GET /billing/plan': {
    id: 'retrievePlan',
    tag: 'Billing',
    summary: "Retrieve the caller's plan",
    description: 'Its limits, of which null is none, and its models.',
    credential: 'either',
    answer: { description: 'The plan.', schema: 'Plan', example: plan },
    refusals: refusedHead.key,
  },
} as const satisfies RouteDescriptions;
