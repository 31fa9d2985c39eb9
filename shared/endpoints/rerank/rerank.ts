import { isObject } from '../../is-object.ts';
import { type Endpoint, noHeaders } from '../definition/endpoint.ts';
import type { Prompt, RequestFormat } from '../definition/request-format.ts';
import { publishedFields } from '../fields/refused-fields.ts';
import { estimateTokens } from '../tokens/estimate-tokens.ts';
import { estimateWithMedia, type MediaSum, readOpenAiMedia, withoutMedia } from '../tokens/media-tokens.ts';
import { promptCost } from '../tokens/request-cost.ts';
import { textsIn } from '../tokens/texts-in.ts';
import { rerankAnswers } from './rerank-answers.ts';
import { type RerankRequest, rerankRequestSchema } from './rerank-request.ts';

const textFields = new Set(['text', 'content']);

/** Any object, also one that the schema would refuse. */
type PromptFields = { query?: unknown; documents?: unknown };

/** The model reads the query with each document: this many tokens more than the request has. */
function repeatedTokens({ query, documents }: PromptFields): number {
  const pairs = Array.isArray(documents) ? documents.length : 0;
  const media: MediaSum = { tokens: 0, texts: [] };
  const shown = withoutMedia(query, readOpenAiMedia, media);
  return Math.max(0, pairs - 1) * (estimateTokens([...textsOf(shown), ...media.texts].join('\n')) + media.tokens);
}

/** The texts of a query or a document. All of it is text if no known field has any. */
function textsOf(item: unknown): string[] {
  const isKnown = !isObject(item) || Object.keys(item).some((name) => textFields.has(name));
  return isKnown ? textsIn(item, textFields) : [JSON.stringify(item)];
}

const request: RequestFormat = {
  schema: rerankRequestSchema,
  fields: {
    published: publishedFields(rerankRequestSchema.shape),
    media: ['query', 'documents'],
    holdTools: [],
    outputFormat: ['response_format'],
  },
  promptField: 'documents',
  limitFields: [],

  ask: ({ model }: RerankRequest) => ({
    model,
    stream: false,
    includeUsage: false,
    assembled: false,
    choices: 1,
    fields: {},
  }),
  cost(asked: RerankRequest, { text }) {
    return promptCost({ promptTokens: request.estimatePrompt(asked, text), promptField: request.promptField });
  },
  estimatePrompt: (asked: PromptFields, text) =>
    estimateWithMedia(asked, { text, fields: ['query', 'documents'], readMedia: readOpenAiMedia }) +
    repeatedTokens(asked),

  promptOf(payload: PromptFields): Prompt {
    const media: MediaSum = { tokens: repeatedTokens(payload), texts: [] };
    const shown = [payload.query, payload.documents].flat().map((item) => withoutMedia(item, readOpenAiMedia, media));
    return { texts: [...shown.flatMap(textsOf), ...media.texts], tokens: media.tokens };
  },
  choicesOf: () => 1,
};

/** `POST /v1/rerank`. Cohere's clients call `/v2/rerank`, and others `/rerank` (contract.md#d15-other-clients). */
export const rerank: Endpoint = {
  name: 'rerank',
  path: '/v1/rerank',
  otherPaths: ['/v2/rerank', '/rerank'],
  request,
  answer: rerankAnswers,
  headers: noHeaders,
  inBatches: false,
};
