import { z } from 'zod';
import { countTokens, messages } from '../../../shared/endpoints/messages/messages.ts';
import { errorParts } from '../../api/refusals.ts';
import { count, countedBy, modelName } from './choices-schemas.ts';
import type { EndpointDescription } from './endpoint-description.ts';

const usage = z.looseObject({ input_tokens: count, output_tokens: count }).meta(countedBy);

const message = z.looseObject({
  id: z.string(),
  type: z.literal('message'),
  role: z.literal('assistant'),
  model: modelName,
  content: z
    .array(z.looseObject({ type: z.string() }))
    .meta({ description: 'Blocks: `text`, `thinking`, `tool_use` and others, as Anthropic describes them.' }),
  stop_reason: z.string().nullable().meta({
    description: '`end_turn`, `max_tokens`, `stop_sequence`, `tool_use`; null before the message is complete.',
  }),
  stop_sequence: z.string().nullish(),
  usage,
});

const event = z
  .looseObject({
    type: z
      .string()
      .regex(/^(?!error$)/)
      .meta({ description: 'The name of the event, such as `content_block_delta`.' }),
    message: message.optional().meta({ description: 'In `message_start`.' }),
  })
  .meta({ description: 'An event of a streamed message. The fields of each type are those that Anthropic describes.' });

const error = z
  .strictObject({
    type: z.literal('error'),
    error: z.strictObject({
      type: z.string().meta({
        description: "Anthropic's type for the status: `invalid_request_error`, `rate_limit_error` and others.",
      }),
      message: errorParts.message,
      code: errorParts.code,
      limit: errorParts.limit.optional().meta({ description: 'The limit that was exceeded.' }),
      ...errorParts.details,
      details: z
        .strictObject({
          error_code: z.literal('thread_unsupported_request'),
          unsupported: z.array(z.literal('thread')),
        })
        .optional()
        .meta({ description: 'Of a request with a `thread`, for the tool runners of SDKs.' }),
    }),
    request_id: z.string().meta({ description: 'The same as `x-request-id`.' }),
  })
  .meta({
    description: "An error in Anthropic's shape: as a response, or as the last event of an interrupted stream.",
  });

const tokenCount = z.looseObject({ input_tokens: count });

const text = 'Hello! How can I help?';
const example = {
  id: 'msg_7f3a',
  type: 'message',
  role: 'assistant',
  model: 'small-chat',
  content: [{ type: 'text', text }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 8, output_tokens: 7 },
};
const prompt = { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }] };
const events = [
  { type: 'message_start', message: { ...example, content: [], stop_reason: null } },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: example.usage },
  { type: 'message_stop' },
];

export const messagesDescription: EndpointDescription = {
  endpoint: messages,
  id: 'createMessage',
  summary: 'Create a message',
  description: `Compatible with Anthropic's Messages API, for models that offer \`messages\`. Errors have Anthropic's
shape. \`max_tokens\` is required. Anthropic's server tools are dropped, and other tools of types other than \`custom\` and \`function\` refused, unless
the operator allows them for the model. With \`stream\` the response is server-sent events with names, each a \`MessageEvent\`, up to
\`message_stop\`. An interrupted stream ends with \`event: error\` and a \`MessageError\`. Lines that start with a colon are comments, sent
while there is no data.`,
  request: { schema: 'MessageRequest', example: { ...prompt, max_tokens: 200 } },
  answer: { description: 'The message, or its events if `stream` is true.', schema: 'Message', example },
  stream: {
    events: ['MessageEvent', 'MessageError'],
    description: 'Events with names, each a `MessageEvent`, up to `message_stop`; or at last a `MessageError`.',
    example: events.map((each) => `event: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`).join(''),
  },
  errorSchema: 'MessageError',
  schemas: { Message: message, MessageEvent: event, MessageError: error },
};

export const countTokensDescription: EndpointDescription = {
  endpoint: countTokens,
  id: 'countMessageTokens',
  summary: 'Count the tokens of a message',
  description: `Compatible with Anthropic's API, for models that offer \`messages\`. It counts as a request and charges no tokens; an estimate of the prompt
is reserved until it ends. A model server counts. If none can, a tokenizer estimates, and \`x-svc-estimated\` says so.`,
  request: { schema: 'TokenCountRequest', example: prompt },
  answer: { description: 'The number of tokens.', schema: 'TokenCount', example: { input_tokens: 8 } },
  errorSchema: 'MessageError',
  schemas: { TokenCount: tokenCount, MessageError: error },
};
