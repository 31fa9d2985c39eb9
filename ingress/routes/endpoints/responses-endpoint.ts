import { z } from 'zod';
import { responses } from '../../../shared/endpoints/responses/responses.ts';
import { errorParts } from '../../api/refusals.ts';
import { count, countedBy, modelName, streamError } from './choices-schemas.ts';
import type { EndpointDescription } from './endpoint-description.ts';

const usage = z.looseObject({ input_tokens: count, output_tokens: count, total_tokens: count }).meta(countedBy);

const item = z.looseObject({ type: z.string() }).meta({
  description: '`message`, `reasoning`, `function_call` and other types, as OpenAI describes them.',
});

const response = z.looseObject({
  id: z.string(),
  object: z.literal('response'),
  created_at: z.number().meta({ description: 'Seconds since 1970, UTC.' }),
  status: z
    .string()
    .optional()
    .meta({ description: '`completed`; `incomplete` at the output limit; `in_progress` in events.' }),
  model: modelName,
  output: z.array(item),
  usage: usage.nullish().meta({ description: 'Null before the response is complete.' }),
});

const event = z
  .looseObject({
    type: z
      .string()
      .regex(/^(?!error$)/)
      .meta({ description: 'The name of the event, such as `response.output_text.delta`.' }),
    sequence_number: count,
    response: response.optional().meta({ description: 'In `response.created`, `response.completed` and others.' }),
  })
  .meta({ description: 'An event of a streamed response. The fields of each type are those that OpenAI describes.' });

const errorEvent = z
  .strictObject({
    type: z.literal('error'),
    code: errorParts.code,
    message: errorParts.message,
    param: z.null(),
    sequence_number: count,
    error: streamError.shape.error.meta({ description: 'The same again, with a type.' }),
  })
  .meta({ description: 'The last event of an interrupted stream, for every code; no `response.completed` follows.' });

const example = {
  id: 'resp_7f3a',
  object: 'response',
  created_at: 1_767_225_600,
  status: 'completed',
  model: 'small-chat',
  output: [
    {
      id: 'msg_7f3a',
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Hello! How can I help?', annotations: [], logprobs: [] }],
    },
  ],
  usage: { input_tokens: 8, output_tokens: 7, total_tokens: 15 },
};
const delta = { type: 'response.output_text.delta', sequence_number: 4, delta: 'Hello' };
const last = { type: 'response.completed', sequence_number: 9, response: example };

export const responsesDescription: EndpointDescription = {
  endpoint: responses,
  id: 'createResponse',
  summary: 'Create a response',
  description: `Compatible with OpenAI's Responses API, without state, for models that offer \`responses\`. Each request contains the whole conversation:
\`previous_response_id\`, \`conversation\`, \`background: true\` and \`store: true\` are refused. Model servers get \`store: false\`. Hosted
tools, such as \`web_search\`, are dropped, and other tool types than \`function\` and \`custom\` refused, unless the operator allows them for the model. With \`stream\` the response is server-sent
events with names, each a \`ResponseEvent\`, up to \`response.completed\` or \`response.incomplete\`. An interrupted stream ends with
\`event: error\` and a \`ResponseErrorEvent\`. Lines that start with a colon are comments, sent while there is no data.`,
  request: { schema: 'ResponseRequest', example: { model: 'small-chat', input: 'Hello' } },
  answer: { description: 'The response, or its events if `stream` is true.', schema: 'Response', example },
  stream: {
    events: ['ResponseEvent', 'ResponseErrorEvent'],
    description:
      'Events with names, each a `ResponseEvent`, up to `response.completed` or `response.incomplete`; or at last a `ResponseErrorEvent`.',
    example: [delta, last].map((each) => `event: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`).join(''),
  },
  schemas: { Response: response, ResponseEvent: event, ResponseErrorEvent: errorEvent },
};
