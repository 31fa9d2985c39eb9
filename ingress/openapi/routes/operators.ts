import { accountsQuery } from '../../routes/operators/accounts.ts';
import { auditQuery } from '../../routes/operators/audit.ts';
import { usageQuery } from '../../routes/usage.ts';
import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';
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

const auditRecord = {
  id: 'audit_01KJMMA2KV0000015QP5D3J9J9',
  at: '2026-03-02T10:30:00.000Z',
  actor: 'user:olga',
  address: '198.51.100.7',
  account: 'user:alice',
  change: { plan: { from: 'free', to: 'pro' } },
  reason: 'Signed the contract.',
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
    description:
      'With its keys, masked, its last 20 batches and its last 200 changes. Earlier changes of its settings follow, so that at least the last 200 of those are there; the audit trail has all of them.',
    credential: 'operator',
    answer: { description: 'The account.', schema: 'Account', example: { ...changed, batches: [] } },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'PATCH /admin/accounts/:account': {
    id: 'updateAccount',
    tag: 'Operators',
    summary: 'Change an account or device',
    description:
      'In force on its next request. Leaves an audit record. Setting a value to what it already is changes nothing and leaves no record. `CONFLICT`: a top-up of this `id` was made with other tokens.',
    credential: 'operator',
    body: { schema: 'AccountSettings', example: { plan: 'pro', reason: 'Signed the contract.' } },
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
  'GET /admin/audit': {
    id: 'listAuditRecords',
    tag: 'Operators',
    summary: 'List the changes of accounts',
    description:
      'Every change of a plan, overage, top-up or suspension, newest first. Nothing removes or replaces a record. A page keeps its place while new records arrive.',
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
