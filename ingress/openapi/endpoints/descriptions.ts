import type { z } from 'zod';
import type { RouteDescription } from '../description/route-description.ts';
import { chatDescription } from './chat.ts';
import { completionsDescription } from './completions.ts';
import { embeddingsDescription } from './embeddings.ts';
import { type EndpointDescription, routeOf } from './endpoint-description.ts';
import { countTokensDescription, messagesDescription } from './messages.ts';
import { rerankDescription } from './rerank.ts';
import { responsesDescription } from './responses.ts';

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

export const endpointRoutes: Readonly<Record<string, RouteDescription>> = Object.fromEntries(descriptions.map(routeOf));

export const endpointRequestSchemas: Readonly<Record<string, z.ZodType>> = Object.fromEntries(
  descriptions.map(({ endpoint, request }) => [request.schema, endpoint.request.schema]),
);

export const endpointAnswerSchemas: Readonly<Record<string, z.ZodType>> = Object.assign(
  {},
  ...descriptions.map(({ schemas }) => schemas),
);
