import { named, type Route, route } from '../api/route.ts';
import { answerCall } from '../replies/answer-call.ts';
import { chatDescription } from './endpoints/chat-endpoint.ts';
import { completionsDescription } from './endpoints/completions-endpoint.ts';
import { embeddingsDescription } from './endpoints/embeddings-endpoint.ts';
import type { EndpointDescription } from './endpoints/endpoint-description.ts';
import { countTokensDescription, messagesDescription } from './endpoints/messages-endpoint.ts';
import { rerankDescription } from './endpoints/rerank-endpoint.ts';
import { responsesDescription } from './endpoints/responses-endpoint.ts';

/** Every endpoint, in the order of the document. */
const descriptions: readonly EndpointDescription[] = [
  chatDescription,
  responsesDescription,
  messagesDescription,
  countTokensDescription,
  completionsDescription,
  embeddingsDescription,
  rerankDescription,
];

/** The routes that call a model. What an endpoint's definition says, such as its path and its headers, is taken from there. */
export const inferenceRoutes: readonly Route[] = descriptions.map(routeOf);

function routeOf(described: EndpointDescription): Route {
  const { endpoint, id, summary, description, request, answer, stream, errorSchema } = described;
  const schemas = new Map(Object.entries(described.schemas).map(([name, schema]) => [name, named(name, schema)]));
  const schemaOf = (name: string) => {
    const schema = schemas.get(name);
    if (schema === undefined) throw new Error(`${id} has no schema ${name}`);
    return schema;
  };
  const { requestId, passedOn } = endpoint.headers;
  const isEstimated = endpoint.answer.estimate !== undefined;
  return route({
    id,
    method: 'POST',
    path: endpoint.path,
    access: 'key',
    tag: 'Inference',
    summary,
    description,
    body: { ...request, schema: named(request.schema, endpoint.request.schema) },
    answers: {
      ...answer,
      schema: schemaOf(answer.schema),
      parts: [...schemas.values()],
      ...(stream && { stream: { ...stream, events: stream.events.map(schemaOf) } }),
      headers: [
        'idempotent-replayed',
        'x-svc-original-request-id',
        ...(isEstimated ? (['x-svc-estimated'] as const) : []),
      ],
    },
    refusals: [
      'quota_exceeded',
      'UPSTREAMS_EXHAUSTED',
      'DEADLINE_EXCEEDED',
      'CONFLICT',
      'IDEMPOTENCY_RESULT_LOST',
      'IDEMPOTENCY_MISMATCH',
      ...(errorSchema === undefined ? [] : (['NOT_FOUND'] as const)), // an unknown model
    ],
    limits: [
      'requests_limit',
      'tokens_limit',
      'daily_limit',
      'concurrency_limit',
      'plan_limit',
      'key_requests_limit',
      'key_tokens_limit',
      'idempotency_limit',
    ],
    headers: ['idempotency-kept', ...(requestId === undefined ? [] : [requestId])],
    endpoint,
    repeatable: true,
    passedOn,
    errorSchema: errorSchema === undefined ? undefined : schemaOf(errorSchema),
    anyOrigin: true,
    handle: ({ ctx }, { queue }) => answerCall(ctx, queue),
  });
}
