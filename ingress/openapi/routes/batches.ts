import { batchesQuery } from '../../routes/batches.ts';
import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';

const batch = {
  id: 'batch_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  object: 'batch',
  endpoint: '/v1/chat/completions',
  model: 'small-chat',
  errors: null,
  input_file_id: 'file-01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  completion_window: '24h',
  status: 'in_progress',
  output_file_id: null,
  error_file_id: null,
  created_at: 1_767_225_600,
  in_progress_at: 1_767_225_602,
  expires_at: 1_767_312_000,
  finalizing_at: null,
  completed_at: null,
  failed_at: null,
  expired_at: null,
  cancelling_at: null,
  cancelled_at: null,
  request_counts: { total: 100, completed: 42, failed: 1 },
  usage: null,
  metadata: null,
  key_id: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
} as const;

export const batchRoutes = {
  'POST /v1/batches': {
    id: 'createBatch',
    tag: 'Batches',
    summary: 'Create a batch',
    description:
      'Its lines run within 24 hours, next to direct requests. They are all for its `endpoint`. Errors in the file are found while the batch is `validating`.',
    credential: 'account',
    body: {
      schema: 'NewBatch',
      example: { input_file_id: batch.input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' },
    },
    answer: {
      description: 'The batch.',
      schema: 'Batch',
      headers: ['idempotent-replayed'],
      example: {
        ...batch,
        model: null,
        status: 'validating',
        in_progress_at: null,
        request_counts: { total: 0, completed: 0, failed: 0 },
      },
    },
    refusals: [...refusedHead.key, ...refusedBody, 'rate_limit_exceeded', 'IDEMPOTENCY_MISMATCH'],
    limits: ['batch_limit'],
    repeatable: true,
  },
  'GET /v1/batches': {
    id: 'listBatches',
    tag: 'Batches',
    summary: "List the account's batches",
    description: 'Newest first.',
    credential: 'account',
    query: batchesQuery,
    answer: {
      description: 'A page of batches.',
      schema: 'BatchList',
      example: { object: 'list', data: [batch], first_id: batch.id, last_id: batch.id, has_more: false },
    },
    refusals: refusedHead.key,
  },
  'GET /v1/batches/:batch': {
    id: 'retrieveBatch',
    tag: 'Batches',
    summary: 'Retrieve a batch',
    credential: 'account',
    answer: { description: 'The batch.', schema: 'Batch', example: batch },
    refusals: [...refusedHead.key, 'NOT_FOUND'],
  },
  'POST /v1/batches/:batch/cancel': {
    id: 'cancelBatch',
    tag: 'Batches',
    summary: 'Cancel a batch',
    description: 'A repeated call changes nothing; `CONFLICT` after the batch has ended.',
    credential: 'account',
    answer: {
      description: 'The batch, usually `cancelling`.',
      schema: 'Batch',
      example: { ...batch, status: 'cancelling', cancelling_at: 1_767_225_700 },
    },
    refusals: [...refusedHead.key, 'NOT_FOUND', 'CONFLICT'],
  },
} as const satisfies RouteDescriptions;
