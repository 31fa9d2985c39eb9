import { batchesQuery } from '../../routes/batches.ts';
import { findQuery } from '../../routes/operators/find.ts';
import { requestsQuery } from '../../routes/requests/list-requests.ts';
import { type RouteDescriptions, refusedHead } from '../description/route-description.ts';
import { batch } from './batches.ts';
import { limitsInUse, quota } from './billing.ts';
import { request } from './requests.ts';

const generation = '3f0c1c7c9a52';
const started = { generation, started_at: '2026-03-01T09:00:00.000Z' };
const fleet = {
  object: 'fleet',
  ingresses: [{ id: '01KJMMA2KV0000015QP5D3J9J8', ...started, connections: 12, waiting: 3 }],
  workers: [{ id: '01KJMMA2KV0000015QP5D3J9J9', ...started, pools: ['default'], running: 3, waiting: 0 }],
  pools: [
    {
      pool: 'default',
      workers: 1,
      models: [{ model: 'small-chat', queued: { interactive: 2, batch: 140 }, queue_max: 2_000, oldest_ms: 310 }],
    },
  ],
  backends: [
    {
      backend: 'onprem-a',
      location: 'on-prem',
      calls: 3,
      limit: 8,
      per_worker: false,
      shares: 8,
      paused: null,
      pauses: [{ kind: 'busy', workers: 1, left_ms: 250 }],
      models: [
        {
          model: 'small-chat',
          breakers: { closed: 1, 'half-open': 0, open: 0 },
          first_token_ms: 180,
          answered: 42,
          failed: 1,
          suspects: 0,
        },
      ],
    },
  ],
} as const;

export const anyRequest = {
  ...request,
  account: 'user:alice',
  attempts: request.attempts.map((attempt, index) => ({ ...attempt, backend: index === 0 ? 'onprem-a' : 'cloud-a' })),
};

const { errors: _errors, metadata: _metadata, ...shownOfBatch } = batch;
export const anyBatch = { ...shownOfBatch, account: 'user:alice' };

/** What operators look at when something is wrong. */
export const operatorViewRoutes = {
  'GET /admin/find': {
    id: 'findAnything',
    tag: 'Operators',
    summary: 'Find an account, key, request, batch or file',
    description: 'In all accounts. At most 20 accounts are returned.',
    credential: 'operator',
    query: findQuery,
    answer: {
      description: 'What was found; empty if nothing was.',
      schema: 'FoundThings',
      example: { object: 'list', data: [{ kind: 'account', id: 'user:alice', account: 'user:alice' }] },
    },
    refusals: refusedHead.signIn,
  },
  'GET /admin/requests/:request': {
    id: 'retrieveAnyRequest',
    tag: 'Operators',
    summary: 'Retrieve a request of any account',
    description:
      'By its id, with the names of the backends that were called. A request that was refused before it was admitted is only in the log.',
    credential: 'operator',
    answer: { description: 'The request.', schema: 'OperatorRequest', example: anyRequest },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'GET /admin/accounts/:account/requests': {
    id: 'listAccountRequests',
    tag: 'Operators',
    summary: 'List the requests of an account',
    description:
      'As the account itself sees them, with the names of the backends that were called: latest first, also those that are running.',
    credential: 'operator',
    query: requestsQuery,
    answer: {
      description: 'A page of requests.',
      schema: 'OperatorRequestList',
      example: { object: 'list', data: [anyRequest], first_id: request.id, last_id: request.id, has_more: false },
    },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'GET /admin/accounts/:account/batches': {
    id: 'listAccountBatches',
    tag: 'Operators',
    summary: 'List the batches of an account',
    description: 'Newest first, without what the account has written.',
    credential: 'operator',
    query: batchesQuery,
    answer: {
      description: 'A page of batches.',
      schema: 'OperatorBatchList',
      example: { object: 'list', data: [anyBatch], first_id: batch.id, last_id: batch.id, has_more: false },
    },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'GET /admin/batches/:batch': {
    id: 'retrieveAnyBatch',
    tag: 'Operators',
    summary: 'Retrieve a batch of any account',
    description: 'Without what its account has written.',
    credential: 'operator',
    answer: { description: 'The batch.', schema: 'OperatorBatch', example: anyBatch },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'GET /admin/accounts/:account/quota': {
    id: 'retrieveAccountQuota',
    tag: 'Operators',
    summary: 'Retrieve the quota of an account',
    description: 'As the account itself sees it.',
    credential: 'operator',
    answer: { description: 'The quota and usage of this month, in tokens.', schema: 'Quota', example: quota },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'GET /admin/accounts/:account/limits': {
    id: 'retrieveAccountLimits',
    tag: 'Operators',
    summary: 'Retrieve the limits that an account uses now',
    description: 'As the account itself sees them.',
    credential: 'operator',
    answer: { description: 'The limits and their use.', schema: 'LimitsInUse', example: limitsInUse },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'GET /admin/fleet': {
    id: 'retrieveFleet',
    tag: 'Operators',
    summary: 'Retrieve what all processes do now',
    description:
      'Processes, the queues of their pools, and the backends as the workers see them. Every process notes what it does every two seconds. The numbers of a process that has not noted any are null.',
    credential: 'operator',
    answer: { description: 'Ingresses, workers, pools and backends.', schema: 'Fleet', example: fleet },
    refusals: refusedHead.signIn,
  },
} as const satisfies RouteDescriptions;
