import { requestsQuery } from '../../routes/requests/list-requests.ts';
import { type RouteDescriptions, refusedHead } from '../description/route-description.ts';

export const request = {
  id: 'req_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  answer_id: 'chatcmpl-8f1d2a',
  object: 'request',
  endpoint: '/v1/chat/completions',
  model: 'small-chat',
  state: 'ended',
  outcome: 'completed',
  created_at: 1_767_225_600,
  queue_ms: 3,
  first_token_ms: 420,
  duration_ms: 1_250,
  attempts: [
    { location: 'on-prem', outcome: 'failed', ms: 12 },
    { location: 'cloud', outcome: 'answered', ms: 1_230 },
  ],
  usage: { prompt_tokens: 9, completion_tokens: 12, total_tokens: 21, estimated: false },
  charged_tokens: 21,
  key_id: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXB',
} as const;

export const requestRoutes = {
  'GET /v1/requests': {
    id: 'listRequests',
    tag: 'Requests',
    summary: "List the account's requests",
    description:
      'Latest first, also those that are running. Requests that were refused are not there. With a filter, a page can have fewer than `limit` requests, even none, while `has_more` is true: `last_id` is where the next page begins.',
    credential: 'either',
    query: requestsQuery,
    answer: {
      description: 'A page of requests.',
      schema: 'RequestList',
      example: { object: 'list', data: [request], first_id: request.id, last_id: request.id, has_more: false },
    },
    refusals: refusedHead.key,
  },
  'GET /v1/requests/:request': {
    id: 'retrieveRequest',
    tag: 'Requests',
    summary: 'Find a request by its id or the id of its answer',
    description:
      'Immediately after its admission by its `x-request-id`, and within a second after its end by the `id` in its answer; of several requests with this id, the latest. A request that was refused is not there.',
    credential: 'either',
    answer: { description: 'The request.', schema: 'Request', example: request },
    refusals: [...refusedHead.key, 'NOT_FOUND'],
  },
} as const satisfies RouteDescriptions;
