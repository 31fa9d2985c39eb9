import { accountsQuery } from '../../routes/accounts.ts';
import { usageQuery } from '../../routes/usage.ts';
import { type RouteDescriptions, refusedBody, refusedHead } from '../route-description.ts';
import { plan, usage } from './billing.ts';

const summary = {
  account: 'user:alice',
  plan: 'pro',
  overageEnabled: false,
  suspended: false,
  createdAt: '2026-03-01T09:00:00.000Z',
};
const changed = {
  ...summary,
  topUp: 0,
  keys: [],
  changes: [{ at: '2026-03-02T10:30:00.000Z', by: 'user:olga', plan: { from: 'free', to: 'pro' } }],
};

export const operatorRoutes = {
  'GET /admin/accounts': {
    id: 'listAccounts',
    tag: 'Operators',
    summary: 'List accounts and devices',
    description: 'In order of their ids; those that were ever given a key or changed.',
    credential: 'operator',
    query: accountsQuery,
    answer: {
      description: 'A page of accounts.',
      schema: 'AccountList',
      example: { object: 'list', data: [summary], has_more: false },
    },
    refusals: refusedHead.signIn,
  },
  'GET /admin/accounts/:account': {
    id: 'retrieveAccount',
    tag: 'Operators',
    summary: 'Retrieve an account or device',
    description: 'With its keys, masked, its last 20 batches and its last 200 changes.',
    credential: 'operator',
    answer: { description: 'The account.', schema: 'Account', example: { ...changed, batches: [] } },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'PATCH /admin/accounts/:account': {
    id: 'updateAccount',
    tag: 'Operators',
    summary: 'Change an account or device',
    description:
      'In force on its next request. What is so already is no change. `CONFLICT`: a top-up of this `id` was made with other tokens.',
    credential: 'operator',
    body: { schema: 'AccountSettings', example: { plan: 'pro' } },
    answer: { description: 'The account as it is now.', schema: 'ChangedAccount', example: changed },
    refusals: [...refusedHead.signIn, 'NOT_FOUND', 'CONFLICT', ...refusedBody],
  },
  'GET /admin/accounts/:account/usage': {
    id: 'retrieveAccountUsage',
    tag: 'Operators',
    summary: 'Retrieve what an account used in a month',
    credential: 'operator',
    query: usageQuery,
    answer: { description: 'The usage, as the account itself sees it.', schema: 'Usage', example: usage },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'GET /admin/plans': {
    id: 'listPlans',
    tag: 'Operators',
    summary: 'List the plans',
    credential: 'operator',
    answer: {
      description: 'Every plan, with its limits and models.',
      schema: 'PlanList',
      example: { object: 'list', data: [plan] },
    },
    refusals: refusedHead.signIn,
  },
} as const satisfies RouteDescriptions;
