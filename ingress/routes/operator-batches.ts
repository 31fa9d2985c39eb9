import type { Batch } from '../../shared/batches/batch.ts';
import { exampleList, presentList } from '../api/lists.ts';
import { type Route, route } from '../api/route.ts';
import { accountParameter, requireKnown } from './accounts.ts';
import { batchesQuery, batchParameter, cancelling, noSuchBatch } from './batches.ts';
import { byOperator, reasonBody, recordAction } from './operator-action.ts';
import {
  exampleOperatorBatch,
  operatorBatchListSchema,
  operatorBatchSchema,
  presentOperatorBatch,
} from './present-batch.ts';

const exampleCancelling = { ...exampleOperatorBatch, status: 'cancelling', cancelling_at: 1_767_229_200 };

export const operatorBatchRoutes: readonly Route[] = [
  /** The batches of any account, newest first. */
  route({
    id: 'listAccountBatches',
    method: 'GET',
    path: '/admin/accounts/:account/batches',
    access: 'operator',
    tag: 'Operators',
    summary: 'List the batches of an account',
    description: 'Newest first, without what the account has written.',
    query: batchesQuery,
    answers: {
      description: 'A page of batches.',
      schema: operatorBatchListSchema,
      example: exampleList(exampleOperatorBatch),
    },
    refusals: ['NOT_FOUND'],
    params: { account: accountParameter },
    async handle(request, parts) {
      const { account } = request.params;
      const { limit, after } = request.query;
      const found = await parts.store.batches.listBatches(account, { limit: limit + 1, after, order: 'desc' });
      if (found.length === 0) await requireKnown(account, parts);
      return presentList({ found, limit, present: (batch) => presentOperatorBatch(batch, request) });
    },
  }),
  /** A batch of any account. */
  route({
    id: 'retrieveAnyBatch',
    method: 'GET',
    path: '/admin/batches/:batch',
    access: 'operator',
    tag: 'Operators',
    summary: 'Retrieve a batch of any account',
    description: 'Without what its account has written.',
    answers: { description: 'The batch.', schema: operatorBatchSchema, example: exampleOperatorBatch },
    refusals: ['NOT_FOUND'],
    params: { batch: batchParameter },
    async handle(request, { store }) {
      return presentOperatorBatch(requireBatch(await store.batches.findBatch(request.params.batch)), request);
    },
  }),
  /**
   * Cancels a batch of any account, as the account itself could. Nothing is changed or noted if it is
   * being cancelled; `CONFLICT` if it has ended. A batch that ends at the same moment leaves a record nevertheless.
   */
  route({
    id: 'cancelAnyBatch',
    method: 'POST',
    path: '/admin/batches/:batch/cancel',
    access: 'operator',
    tag: 'Operators',
    summary: 'Cancel a batch of any account',
    description:
      'As the account itself could: lines that run finish, and the results so far are kept. Adds an audit record. A batch that is being cancelled stays as it is, without another record. `CONFLICT`: it has ended.',
    body: reasonBody,
    answers: { description: 'The batch.', schema: operatorBatchSchema, example: exampleCancelling },
    refusals: ['NOT_FOUND', 'CONFLICT'],
    params: { batch: batchParameter },
    async handle(request, parts) {
      const { params, body } = request;
      const { batches } = parts.store;
      const by = byOperator(request, body.reason);
      const found = requireBatch(await batches.findBatch(params.batch));
      const { id, account } = found;
      if (cancelling(found, by.at).next !== undefined)
        await recordAction(request, parts, { account, action: { batchCancelled: id }, by });
      const cancelled = await batches.changeBatch(id, (batch) => cancelling(requireBatch(batch), by.at));
      return presentOperatorBatch(cancelled, request);
    },
  }),
];

function requireBatch(batch: Batch | undefined): Batch {
  if (batch === undefined) throw noSuchBatch();
  return batch;
}
