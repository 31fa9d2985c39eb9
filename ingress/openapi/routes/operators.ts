import { accountsQuery } from '../../routes/operators/accounts/accounts.ts';
import { auditQuery } from '../../routes/operators/audit.ts';
import { allUsageQuery, usageQuery } from '../../usage/usage-query.ts';
import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';
import { aboutReports, allReport, csv, plan, usage } from './billing.ts';

const summary = {
  account: 'user:alice',
  plan: 'pro',
  overageEnabled: false,
  suspended: false,
  createdAt: '2026-03-01T09:00:00.000Z',
};
export const changed = {
  ...summary,
  topUp: 0,
  keys: [],
  changes: [{ at: '2026-03-02T10:30:00.000Z', by: 'user:olga', plan: { from: 'free', to: 'pro' } }],
};

const auditRecord = {
  id: 'audit_01KJMMA2KV0000015QP5D3J9J9',
  at: '2026-03-02T10:30:00.000Z',
  actor: 'user:olga',
  address: '198.51.100.7',
  account: 'user:alice',
  change: { plan: { from: 'free', to: 'pro' } },
  reason: 'Signed the contract.',
};

const generation = '3f0c1c7c9a52';
const settings = {
  object: 'settings',
  generation,
  next: null,
  issues: [],
  plan_file: {
    default_plan: 'free',
    models: { 'small-chat': { tier: 'guest', pool: 'default', backends: ['onprem-a'] } },
  },
  processes: [
    {
      id: '01KJMMA2KV0000015QP5D3J9J9',
      kind: 'worker',
      generation,
      pools: ['default'],
      issues: 0,
      started_at: '2026-03-01T09:00:00.000Z',
    },
  ],
};

export const operatorRoutes = {
  'GET /admin/accounts': {
    id: 'listAccounts',
    tag: 'Operators',
    summary: 'List accounts and devices',
    description: 'Ordered by id. Includes accounts that have ever had a key or a change.',
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
    description:
      'With its keys, masked, its last 20 batches and its last 200 changes. Earlier changes of its settings follow, so that at least the last 200 of these are included; the audit trail has all of them.',
    credential: 'operator',
    answer: { description: 'The account.', schema: 'Account', example: { ...changed, batches: [] } },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'PATCH /admin/accounts/:account': {
    id: 'updateAccount',
    tag: 'Operators',
    summary: 'Change an account or device',
    description:
      'Applies from the next request. Adds an audit record. Setting a value to its current value changes nothing and adds no record. `CONFLICT`: a top-up with this `id` was made with another number of tokens.',
    credential: 'operator',
    body: { schema: 'AccountSettings', example: { plan: 'pro', reason: 'Signed the contract.' } },
    answer: { description: 'The account after the change.', schema: 'ChangedAccount', example: changed },
    refusals: [...refusedHead.signIn, 'NOT_FOUND', 'CONFLICT', ...refusedBody],
  },
  'GET /admin/accounts/:account/usage': {
    id: 'retrieveAccountUsage',
    tag: 'Operators',
    summary: 'Retrieve the usage of an account',
    description: aboutReports,
    credential: 'operator',
    query: usageQuery,
    answer: { description: 'The usage, as the account sees it.', schema: 'UsageOrReport', example: usage, csv },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'GET /admin/usage': {
    id: 'retrieveAllUsage',
    tag: 'Operators',
    summary: 'Retrieve the usage of all accounts',
    description:
      'A report over all accounts and devices. It reads the details of every month that has a day of the range, so it can take a minute for many accounts. `order=charged` returns only the rows with the most charged tokens, and the total of all.',
    credential: 'operator',
    query: allUsageQuery,
    answer: {
      description: 'The report.',
      schema: 'UsageReport',
      example: allReport,
      csv: csv.replaceAll(/^day/gm, 'account,day').replaceAll(/^2026/gm, 'user:alice,2026'),
    },
    refusals: refusedHead.signIn,
  },
  'GET /admin/audit': {
    id: 'listAuditRecords',
    tag: 'Operators',
    summary: 'List the audit records',
    description:
      'Every change of a plan, overage, top-up or suspension, and every key, batch or request that an operator has ended, newest first. Records are never removed or replaced. Pages stay stable while new records arrive.',
    credential: 'operator',
    query: auditQuery,
    answer: {
      description: 'A page of audit records.',
      schema: 'AuditRecordList',
      example: {
        object: 'list',
        data: [auditRecord],
        first_id: auditRecord.id,
        last_id: auditRecord.id,
        has_more: false,
      },
    },
    refusals: refusedHead.signIn,
  },
  'GET /admin/settings': {
    id: 'retrieveSettings',
    tag: 'Operators',
    summary: 'Retrieve the plan file in force and the processes',
    description: 'Passwords in addresses of backends are replaced by asterisks.',
    credential: 'operator',
    answer: {
      description: 'The plan file of this ingress, and each live process with the plan file that it works with.',
      schema: 'ServiceSettings',
      example: settings,
    },
    refusals: refusedHead.signIn,
  },
  'GET /admin/plans': {
    id: 'listPlans',
    tag: 'Operators',
    summary: 'List the plans',
    credential: 'operator',
    answer: {
      description: 'All plans with their limits and models.',
      schema: 'PlanList',
      example: { object: 'list', data: [plan] },
    },
    refusals: refusedHead.signIn,
  },
} as const satisfies RouteDescriptions;
