import { type Endpoint, noHeaders } from '../definition/endpoint.ts';
import type { RequestFormat } from '../definition/request-format.ts';
import { publishedFields } from '../fields/refused-fields.ts';
import { estimatePrompts, promptsOf } from '../tokens/estimate-prompts.ts';
import { promptCost } from '../tokens/request-cost.ts';
import { embeddingAnswers } from './embedding-answers.ts';
import { type EmbeddingRequest, embeddingRequestSchema } from './embedding-request.ts';

const request: RequestFormat = {
  schema: embeddingRequestSchema,
  fields: {
    published: publishedFields(embeddingRequestSchema.shape),
    // Some model servers take messages with images in place of `input`.
    media: ['messages', 'input'],
    holdTools: ['messages'],
    outputFormat: ['response_format'],
  },
  promptField: 'input',
  limitFields: [],

  ask: ({ model }: EmbeddingRequest) => ({
    model,
    stream: false,
    includeUsage: false,
    assembled: false,
    choices: 1,
    fields: {},
  }),
  cost: (embedding, { text }) =>
    promptCost({ promptTokens: request.estimatePrompt(embedding, text), promptField: request.promptField }),
  estimatePrompt: (embedding, text) => estimatePrompts(embedding, 'input', text),

  promptOf: (payload) => promptsOf({ ...payload }, 'input'),
  choicesOf: () => 1,
};

/** `POST /v1/embeddings`. */
export const embeddings: Endpoint = {
  name: 'embeddings',
  path: '/v1/embeddings',
  request,
  answer: embeddingAnswers,
  headers: noHeaders,
  inBatches: true,
};
