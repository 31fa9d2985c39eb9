import { z } from 'zod';
import { ApiError, validationError } from '../../shared/errors.ts';
import { usageOutcomes } from '../../shared/store/usage/usage-record.ts';
import { exampleList, limitParameter } from '../api/lists.ts';
import { givenTime } from '../api/response-fields.ts';
import { type Route, route } from '../api/route.ts';
import {
  type FoundRequest,
  isOfLine,
  type RequestLookUp,
  type RequestPage,
  requestIdPattern,
} from '../requests/find-requests.ts';
import { accountParameter, requireKnown } from './accounts.ts';
import { byOperator, reasonBody, recordAction } from './operator-action.ts';
import {
  operatorRequestListSchema,
  operatorRequestSchema,
  presentForOperator,
  presentLines,
  presentRequest,
  requestListSchema,
  requestSchema,
} from './present-request.ts';

const nameLengthMax = 128;

const name = z.string().min(1).max(nameLengthMax);

const requestsQuery = z.strictObject({
  limit: limitParameter({ max: 100, usual: 20 }),
  after: z
    .string()
    .regex(requestIdPattern, 'expected the id of a request')
    .optional()
    .meta({ description: 'The request before the first one to return: `last_id` of the previous page.' }),
  model: name.optional().meta({ description: 'Only requests to this model, by its name in answers, not by an alias.' }),
  outcome: z.enum(usageOutcomes).optional().meta({ description: 'Only requests that have ended like this.' }),
  code: name.optional().meta({
    description: 'Only requests that have ended with this error code, or without one with this outcome.',
    examples: ['UPSTREAMS_EXHAUSTED'],
  }),
  endpoint: name.optional().meta({ description: 'Only requests to this path.', examples: ['/v1/embeddings'] }),
  key_id: name.optional().meta({ description: 'Only requests with the key of this id.' }),
  batch_id: name.optional().meta({ description: 'Only requests of the lines of this batch.' }),
  slower_than_ms: z
    .string()
    .regex(/^\d{1,9}$/, 'expected milliseconds')
    .transform(Number)
    .optional()
    .meta({ description: 'Only requests that took longer.', documentedAs: z.int().min(0).optional() }),
  start: givenTime.optional().meta({ description: 'Only requests that were admitted at this time or later, UTC.' }),
  end: givenTime.optional().meta({ description: 'Only requests that were admitted before this time, UTC.' }),
  fold_lines: z
    .literal('true')
    .optional()
    .meta({ description: 'With `true`, the lines of a batch are one item on a page, with `lines`.' }),
});

type RequestsQuery = z.output<typeof requestsQuery>;

const params = {
  request: {
    description: 'The `x-request-id` of a request, or the `id` in its answer.',
    example: 'req_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  },
};

const exampleRequest = {
  id: 'req_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  answer_id: 'chatcmpl-8f1d2a',
  object: 'request',
  endpoint: '/v1/chat/completions',
  model: 'small-chat',
  state: 'ended',
  outcome: 'completed',
  status: null,
  code: null,
  created_at: 1_767_225_600,
  queue_ms: 3,
  first_token_ms: 420,
  duration_ms: 1250,
  attempts: [
    { location: 'on-prem', outcome: 'failed', cause: 'connection refused', ms: 12 },
    { location: 'cloud', outcome: 'answered', cause: null, ms: 1230 },
  ],
  usage: { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21, estimated: false },
  charged_tokens: 21,
  key_id: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXB',
  batch_id: null,
} as const;

const exampleOperatorRequest = {
  ...exampleRequest,
  account: 'user:alice',
  attempts: exampleRequest.attempts.map((attempt, index) => ({
    ...attempt,
    backend: index === 0 ? 'onprem-a' : 'cloud-a',
    address: index === 0 ? '10.0.3.11:8000' : null,
    rule: index === 0 ? 'refused-connection' : null,
  })),
};

const unknownUntilItsEnd = {
  status: null,
  code: null,
  queue_ms: null,
  first_token_ms: null,
  duration_ms: null,
  attempts: [],
  usage: null,
  charged_tokens: null,
};

export const requestRoutes: readonly Route[] = [
  /** The requests of the account, latest first (contract.md#h4-list-of-requests). */
  route({
    id: 'listRequests',
    method: 'GET',
    path: '/v1/requests',
    access: 'either',
    tag: 'Requests',
    summary: "List the account's requests",
    description:
      'Latest first, also those that are running. Requests that were refused are not there. With a filter, a page can have fewer than `limit` requests, even none, while `has_more` is true: `last_id` is where the next page begins.',
    query: requestsQuery,
    answers: {
      description: 'A page of requests.',
      schema: requestListSchema,
      example: exampleList(exampleRequest),
    },
    inTurns: true,
    async handle({ planFile: { backends }, caller, query }, { queue: { requestLookUp } }) {
      const page = await requestPageOf(caller.account, query, requestLookUp);
      return presentPage(page, (request) => presentRequest(request, backends));
    },
  }),
  /** By the id of the request or of its answer (contract.md#h3-find-a-request). */
  route({
    id: 'retrieveRequest',
    method: 'GET',
    path: '/v1/requests/:request',
    access: 'either',
    tag: 'Requests',
    summary: 'Find a request by its id or the id of its answer',
    description:
      'Immediately after its admission by its `x-request-id`, and within a second after its end by the `id` in its answer; of several requests with this id, the latest. A request that was refused is not there.',
    answers: { description: 'The request.', schema: requestSchema, example: exampleRequest },
    refusals: ['NOT_FOUND'],
    params,
    inTurns: true,
    async handle({ planFile, caller, params }, { queue: { requestLookUp } }) {
      const found = await requestLookUp.find(caller.account, params.request);
      if (found === undefined) throw new ApiError('NOT_FOUND', 'There is no such request.');
      return presentRequest(found, planFile.backends);
    },
  }),
  /** The requests of any account, latest first, with the backends that were called. */
  route({
    id: 'listAccountRequests',
    method: 'GET',
    path: '/admin/accounts/:account/requests',
    access: 'operator',
    tag: 'Operators',
    summary: 'List the requests of an account',
    description:
      'As the account itself sees them, with the names of the backends that were called: latest first, also those that are running.',
    query: requestsQuery,
    answers: {
      description: 'A page of requests.',
      schema: operatorRequestListSchema,
      example: exampleList(exampleOperatorRequest),
    },
    refusals: ['NOT_FOUND'],
    params: { account: accountParameter },
    async handle({ planFile: { backends }, params: { account }, query }, parts) {
      const page = await requestPageOf(account, query, parts.queue.requestLookUp);
      if (page.last === undefined) await requireKnown(account, parts);
      return presentPage(page, (request) => presentForOperator(account, request, backends));
    },
  }),
  /** A request of any account by its id, with the backends that were called. */
  route({
    id: 'retrieveAnyRequest',
    method: 'GET',
    path: '/admin/requests/:request',
    access: 'operator',
    tag: 'Operators',
    summary: 'Retrieve a request of any account',
    description:
      'By its id, with the names of the backends that were called. A request that was refused before it was admitted is only in the log.',
    answers: { description: 'The request.', schema: operatorRequestSchema, example: exampleOperatorRequest },
    refusals: ['NOT_FOUND'],
    params,
    async handle({ planFile, params }, { queue: { requestLookUp } }) {
      const found = await requestLookUp.findAny(params.request);
      if (found === undefined) throw noSuchRequest();
      return presentForOperator(found.account, found.request, planFile.backends);
    },
  }),
  /**
   * Ends a request of any account within 2 s (contract.md#l9-requests-that-operators-end). Returns it as
   * it is now; one that has ended stays as it is, and leaves no record. `CONFLICT` for a line of a batch, which would be sent again.
   */
  route({
    id: 'endRequest',
    method: 'POST',
    path: '/admin/requests/:request/cancel',
    access: 'operator',
    tag: 'Operators',
    summary: 'End a running request of any account',
    description:
      'Within 2 s, with `FORBIDDEN`; a stream gets it as its last event. It is charged as if its client had left. Adds an audit record. A request that has ended is returned as it is, without another record. `CONFLICT`: it is a line of a batch.',
    body: reasonBody,
    answers: {
      description: 'The request as it was when this was asked for.',
      schema: operatorRequestSchema,
      example: { ...exampleOperatorRequest, state: 'streaming', outcome: null, answer_id: null, ...unknownUntilItsEnd },
    },
    refusals: ['NOT_FOUND', 'CONFLICT'],
    params,
    async handle(operation, parts) {
      const { requestLookUp, requestsToEnd } = parts.queue;
      const found = await requestLookUp.findAny(operation.params.request);
      if (found === undefined) throw noSuchRequest();
      const { account, request } = found;
      if (isOfLine(request.requestId)) throw lineOfBatch();
      if (request.state !== 'ended') {
        const by = byOperator(operation, operation.body.reason);
        await recordAction(operation, parts, { account, action: { requestEnded: request.requestId }, by });
        await requestsToEnd.add([request.requestId], by.at);
      }
      return presentForOperator(account, request, operation.planFile.backends);
    },
  }),
];

/** Reads the page of the account's requests that the query asks for. */
async function requestPageOf(
  account: string,
  { limit, after, fold_lines, ...query }: RequestsQuery,
  requestLookUp: Pick<RequestLookUp, 'find' | 'list'>,
): Promise<RequestPage> {
  const before = after === undefined ? undefined : await requestLookUp.find(account, after);
  if (after !== undefined && before === undefined) {
    throw validationError([{ path: 'after', message: 'there is no such request' }]);
  }
  const { key_id: keyId, batch_id: batch, slower_than_ms: slowerThanMs, ...rest } = query;
  const filter = { ...rest, keyId, batch, slowerThanMs };
  return requestLookUp.list(account, { limit, before, filter, isFolded: fold_lines !== undefined });
}

function presentPage<Shown extends object>(
  { requests, last, hasMore }: RequestPage,
  present: (request: FoundRequest) => Shown,
) {
  const [first_id, last_id] = [requests[0]?.request.requestId ?? null, last?.requestId ?? null];
  const data = requests.map(({ request, lines }) => ({ ...present(request), ...(lines && presentLines(lines)) }));
  return { object: 'list' as const, data, first_id, last_id, has_more: hasMore };
}

function noSuchRequest(): ApiError {
  return new ApiError(
    'NOT_FOUND',
    'There is no such request. One that was refused, for example with 429 or because a queue was full, is only in the log of its ingress.',
  );
}

function lineOfBatch(): ApiError {
  return new ApiError('CONFLICT', 'This is a line of a batch, and would be sent again. Cancel its batch.');
}
