import { errorFrame } from '../../errors.ts';
import { isPromptTooLong } from '../answers/backend-error.ts';
import { namedEvent } from '../answers/convert-events.ts';
import type { AnswerFormat, StreamEnding } from '../definition/answer-format.ts';
import { type Endpoint, noHeaders, type RequestFormat } from '../definition/endpoint.ts';
import { isHostedByOpenAi } from '../fields/hosted-tools.ts';
import { meansTheSameInStream, publishedFields } from '../fields/refused-fields.ts';
import { cutResponse, parseResponse, presentResponse, responseText } from './response-answers.ts';
import { createResponseAssembler, createResponseConverter, responseAsEvents } from './response-events.ts';
import {
  estimateInput,
  inputPrompt,
  type ResponseRequest,
  responseParts,
  responseRequestSchema,
  withTypes,
} from './response-request.ts';

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
  estimatePrompt: estimateInput,
  promptOf: inputPrompt,
  partsOf: responseParts,
};

const answer: AnswerFormat = {
  parse: parseResponse,
  writtenIn: responseText,
  cut: cutResponse,
  present: presentResponse,
  stream: {
    convert: createResponseConverter,
    eventsOf: responseAsEvents,
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

const sequenceNumber = /"sequence_number":(\d{1,15})[,}]/g;

/**
 * A complete stream needs no further event. One that broke off ends with an `error` event and no `response.completed`
 * (contract.md#g4-responses). The event also has `error`, because SDKs read its type there. A prompt that is too long ends as OpenAI ends
 * it, with `response.failed`: Codex compacts its history on the code in it, and on no other event (contract.md#ms6-context).
 */
export function createResponseEnding(): StreamEnding {
  let latest = -1;
  return {
    follow(text) {
      // A quote inside of a string is escaped, so this is never a part of the answer.
      for (const [, digits] of text.matchAll(sequenceNumber)) latest = Number(digits);
    },
    complete: () => '',
    broken(failure, requestId) {
      const { error } = errorFrame(failure);
      const { code, message, param } = error;
      const sequence_number = latest + 1;
      if (!isPromptTooLong(failure)) return namedEvent({ type: 'error', code, message, param, sequence_number, error });
      const failed = { id: `resp_${requestId}`, object: 'response', status: 'failed', output: [] };
      return namedEvent({
        type: 'response.failed',
        sequence_number,
        response: { ...failed, error: { code, message } },
      });
    },
  };
}
