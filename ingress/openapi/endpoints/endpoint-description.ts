import type { z } from 'zod';
import type { Endpoint } from '../../../shared/endpoints/definition/endpoint.ts';
import {
  type RouteDescription,
  refusedBody,
  refusedHead,
  type StreamDescription,
} from '../description/route-description.ts';

/** The documentation of one endpoint. What its definition says, such as its path, its headers and its request, is taken from there. */
export type EndpointDescription = {
  endpoint: Endpoint;
  /** As in `RouteDescription`. */
  id: string;
  summary: string;
  description: string;
  /** The name of the request's schema in the document. */
  request: { schema: string; example: object };
  answer: { schema: string; description: string; example: object };
  /** If the endpoint has streams. */
  stream?: StreamDescription;
  /** If its errors have a shape of their own. */
  errorSchema?: string;
  /** The schemas that are named here, except the request's. */
  schemas: Readonly<Record<string, z.ZodType>>;
};

/** The errors and limits that all endpoints have. */
const refusals = [
  ...refusedHead.key,
  ...refusedBody,
  'quota_exceeded',
  'rate_limit_exceeded',
  'UPSTREAMS_EXHAUSTED',
  'DEADLINE_EXCEEDED',
  'CONFLICT',
  'IDEMPOTENCY_RESULT_LOST',
  'IDEMPOTENCY_MISMATCH',
] as const;
const limits = [
  ...['requests_limit', 'tokens_limit', 'daily_limit', 'concurrency_limit', 'plan_limit'],
  ...['key_requests_limit', 'key_tokens_limit', 'idempotency_limit'],
] as const;

const repeatHeaders = ['idempotent-replayed', 'x-svc-original-request-id'] as const;

/** The route of an endpoint, by method and path. */
export function routeOf(described: EndpointDescription): [string, RouteDescription] {
  const { endpoint, id, summary, description, request, answer, stream, errorSchema } = described;
  const { requestId, passedOn } = endpoint.headers;
  const isEstimated = endpoint.answer.estimate !== undefined;
  const route: RouteDescription = {
    id,
    tag: 'Inference',
    summary,
    description,
    credential: 'key',
    body: request,
    answer: {
      ...answer,
      ...(stream && { stream }),
      headers: [...repeatHeaders, ...(isEstimated ? (['x-svc-estimated'] as const) : [])],
    },
    refusals: errorSchema === undefined ? refusals : [...refusals, 'NOT_FOUND'], // an unknown model
    limits,
    queued: true,
    repeatable: true,
    passedOn,
    errorSchema,
    headers: ['idempotency-kept', ...(requestId === undefined ? [] : [requestId])],
  };
  return [`POST ${endpoint.path}`, route];
}
