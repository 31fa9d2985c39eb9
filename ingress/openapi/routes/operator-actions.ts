import { reasonOnly } from '../../routes/operators/accounts/reason.ts';
import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';
import { anyBatch, anyRequest } from './operator-views.ts';
import { changed } from './operators.ts';

const reason = { schema: 'Reason', example: { reason: 'It blocks a model server.' } } as const;

const cancelling = { ...anyBatch, status: 'cancelling', cancelling_at: 1_767_229_200 };

const paused = {
  object: 'backend_pause',
  backend: 'onprem-a',
  paused: {
    since: '2026-03-01T09:00:00.000Z',
    ends_at: '2026-03-01T09:30:00.000Z',
    by: 'user:olga',
    reason: 'A new driver.',
  },
} as const;

const unknownUntilItsEnd = {
  queue_ms: null,
  first_token_ms: null,
  duration_ms: null,
  attempts: [],
  usage: null,
  charged_tokens: null,
};

/** What operators end in an incident. */
export const operatorActionRoutes = {
  'DELETE /admin/accounts/:account': {
    id: 'removeAccount',
    tag: 'Operators',
    summary: 'Remove an account or device',
    description:
      'Its keys stop working everywhere, then its webhooks, batches and files are removed, with its settings and its display name. Batches that run are cancelled first. Usage records and the audit trail keep its id. Adds an audit record. A repeat removes what is left. A later sign-in or guest mint begins again, on the default plan; a suspension stays.',
    credential: 'operator',
    query: reasonOnly,
    answer: {
      description: 'Whether all of it is removed.',
      schema: 'RemovedAccount',
      example: { object: 'account', account: 'user:alice', deleted: true },
    },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
  'DELETE /admin/accounts/:account/keys/key_:key': {
    id: 'revokeAccountKey',
    tag: 'Operators',
    summary: 'Revoke a key of an account',
    description:
      'The key stops working everywhere. Adds an audit record. A key that has ended stays as it is, without another record. `CONFLICT`: the account is a device, which would get its key again; suspend it instead.',
    credential: 'operator',
    query: reasonOnly,
    answer: { description: 'The account after the change.', schema: 'ChangedAccount', example: changed },
    refusals: [...refusedHead.signIn, 'NOT_FOUND', 'CONFLICT'],
  },
  'POST /admin/batches/:batch/cancel': {
    id: 'cancelAnyBatch',
    tag: 'Operators',
    summary: 'Cancel a batch of any account',
    description:
      'As the account itself could: lines that run finish, and the results so far are kept. Adds an audit record. A batch that is being cancelled stays as it is, without another record. `CONFLICT`: it has ended.',
    credential: 'operator',
    body: reason,
    answer: { description: 'The batch.', schema: 'OperatorBatch', example: cancelling },
    refusals: [...refusedHead.signIn, 'NOT_FOUND', 'CONFLICT', ...refusedBody],
  },
  'POST /admin/requests/:request/cancel': {
    id: 'endRequest',
    tag: 'Operators',
    summary: 'End a running request of any account',
    description:
      'Within 2 s, with `FORBIDDEN`; a stream gets it as its last event. It is charged as if its client had left. Adds an audit record. A request that has ended is returned as it is, without another record. `CONFLICT`: it is a line of a batch.',
    credential: 'operator',
    body: reason,
    answer: {
      description: 'The request as it was when this was asked for.',
      schema: 'OperatorRequest',
      example: { ...anyRequest, state: 'streaming', outcome: null, answer_id: null, ...unknownUntilItsEnd },
    },
    refusals: [...refusedHead.signIn, 'NOT_FOUND', 'CONFLICT', ...refusedBody],
  },
  'POST /admin/fleet/backends/:backend/pause': {
    id: 'pauseBackend',
    tag: 'Operators',
    summary: 'Pause a backend',
    description:
      'Workers start no call of it, from a second or two later on; calls in flight go on. The pause ends after these minutes, or with DELETE. Replaces an earlier pause. Adds an audit record to the account of the operator.',
    credential: 'operator',
    body: { schema: 'PauseBackend', example: { minutes: 30, reason: 'A new driver.' } },
    answer: { description: 'The pause.', schema: 'PausedBackend', example: paused },
    refusals: [...refusedHead.signIn, 'NOT_FOUND', ...refusedBody],
  },
  'DELETE /admin/fleet/backends/:backend/pause': {
    id: 'resumeBackend',
    tag: 'Operators',
    summary: 'End the pause of a backend',
    description:
      'Workers call it again within a second or two. Adds an audit record to the account of the operator, unless the backend is not paused.',
    credential: 'operator',
    query: reasonOnly,
    answer: {
      description: 'The backend is not paused.',
      schema: 'PausedBackend',
      example: { ...paused, paused: null },
    },
    refusals: [...refusedHead.signIn, 'NOT_FOUND'],
  },
} as const satisfies RouteDescriptions;
