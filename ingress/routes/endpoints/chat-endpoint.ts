import { z } from 'zod';
import { chat } from '../../../shared/endpoints/chat/chat.ts';
import { chunkStream, count, finishReason, head, streamError, streamText, tokens } from './choices-schemas.ts';
import type { EndpointDescription } from './endpoint-description.ts';

const toolCall = z.looseObject({
  id: z.string().optional(),
  type: z.string().optional(),
  function: z.looseObject({ name: z.string().optional(), arguments: z.string().optional() }).optional(),
});
const written = z.looseObject({
  role: z.string().nullish(),
  content: z.string().nullish(),
  tool_calls: z.array(toolCall).nullish(),
});

const chatCompletion = z.looseObject({
  ...head,
  choices: z.array(
    z.looseObject({ index: count.optional(), message: written.optional(), finish_reason: finishReason }),
  ),
  usage: tokens,
});

const chatCompletionChunk = z.looseObject({
  ...head,
  choices: z
    .array(z.looseObject({ index: count.optional(), delta: written.nullish(), finish_reason: finishReason }))
    .meta({ description: 'Empty in the usage chunk, which is the last one and sent only on request.' }),
  usage: tokens.nullish(),
});

export const chatDescription: EndpointDescription = {
  endpoint: chat,
  id: 'createChatCompletion',
  summary: 'Create a chat completion',
  description: `Compatible with OpenAI's API. The operator lists additional top-level fields for each model: by default those that model servers
document for sampling and structured output (\`top_k\`, \`min_p\`, \`guided_json\`, \`chat_template_kwargs\` and others). Every other field is
refused by name, and so is \`pattern\` in a schema of such a field. Fields within messages are passed to the model server unchanged, except
\`uuid\` and \`content_hash\` of images, audio and files, which the operator has to allow. Addresses of images, audio and files are \`data:\`
URLs, or \`https:\` URLs of hosts that the operator lists. ${streamText('ChatCompletionChunk')}`,
  request: {
    schema: 'ChatCompletionRequest',
    example: { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }] },
  },
  answer: {
    description: 'The completion, or its events if `stream` is true.',
    schema: 'ChatCompletion',
    example: {
      id: 'chatcmpl-7f3a',
      object: 'chat.completion',
      created: 1_767_225_600,
      model: 'small-chat',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello! How can I help?' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 8, completion_tokens: 7, total_tokens: 15 },
    },
  },
  stream: chunkStream('ChatCompletionChunk', {
    model: 'small-chat',
    choices: [{ index: 0, delta: { content: 'Hello' } }],
  }),
  schemas: {
    ChatCompletion: chatCompletion,
    ChatCompletionChunk: chatCompletionChunk,
    StreamError: streamError,
  },
};
