import type { AnswerFormat } from '../definition/answer-format.ts';
import { type Endpoint, noHeaders } from '../definition/endpoint.ts';
import type { RequestFormat } from '../definition/request-format.ts';
import { meansTheSameInStream } from '../fields/extra-fields.ts';
import { isHostedByOpenAi } from '../fields/hosted-tools.ts';
import { publishedFields } from '../fields/refused-fields.ts';
import { generationCost } from '../tokens/request-cost.ts';
import { cutResponse, parseResponse, presentResponse, type ResponseAnswer, responseText } from './response-answers.ts';
import { createResponseEnding } from './response-ending.ts';
import { createResponseAssembler, createResponseConverter } from './response-events.ts';
import { estimateInput, inputPrompt } from './response-prompt.ts';
import { type ResponseRequest, responseRequestSchema, withTypes } from './response-request.ts';
import { responseAsEvents } from './whole-as-events.ts';

/** Fields that clients send, and no model server needs. They are dropped. */
const dropped = ['client_metadata'];
const knownFields = { ...responseRequestSchema.shape, client_metadata: undefined };
const unsent = { background: undefined, conversation: undefined, previous_response_id: undefined };

const request: RequestFormat = {
  schema: responseRequestSchema,
  fields: {
    published: new Set([...publishedFields(responseRequestSchema.shape), ...dropped]),
    media: ['input'],
    holdTools: ['input'],
    outputFormat: ['text', 'format'],
    isHosted: isHostedByOpenAi,
  },
  promptField: 'input',
  limitFields: ['max_output_tokens'],

  ask: (response: ResponseRequest) => ({
    model: response.model,
    stream: response.stream === true,
    includeUsage: true,
    choices: 1,
    assembled: response.stream !== true && meansTheSameInStream(response, knownFields),
    fields: { ...unsent, ...Object.fromEntries(dropped.map((name) => [name, undefined])), store: false },
    changes: { input: withTypes },
  }),
  cost(response: ResponseRequest, { text, model }) {
    const promptTokens = estimateInput(response, text);
    return generationCost(response, {
      promptTokens,
      promptField: request.promptField,
      limitFields: request.limitFields,
      model,
    });
  },
  estimatePrompt: estimateInput,
  promptOf: inputPrompt,
  choicesOf: () => 1,
};

const answer: AnswerFormat = {
  parse: parseResponse,
  writtenIn: (response: ResponseAnswer) => responseText(response),
  cut: (response: ResponseAnswer, share) => cutResponse(response, share),
  present: (response: ResponseAnswer, tokens, context) => presentResponse(response, tokens, context),
  stream: {
    convert: createResponseConverter,
    eventsOf: (response: ResponseAnswer) => responseAsEvents(response),
    assembly: { fields: {}, create: createResponseAssembler },
    ending: createResponseEnding,
  },
};

/** `POST /v1/responses`, without state. */
export const responses: Endpoint = {
  name: 'responses',
  path: '/v1/responses',
  request,
  answer,
  headers: noHeaders,
  inBatches: true,
};
