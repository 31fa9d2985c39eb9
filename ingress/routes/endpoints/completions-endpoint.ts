import { z } from 'zod';
import { completions } from '../../../shared/endpoints/completions.ts';
import { chunkStream, count, finishReason, head, streamError, streamText, tokens } from './choices-schemas.ts';
import type { EndpointDescription } from './endpoint-description.ts';

const choice = z.looseObject({ index: count.optional(), text: z.string().nullish(), finish_reason: finishReason });

const completion = z.looseObject({ ...head, choices: z.array(choice), usage: tokens });

const completionChunk = z.looseObject({
  ...head,
  choices: z
    .array(choice)
    .meta({ description: 'Empty in the usage chunk, which is the last one and sent only on request.' }),
  usage: tokens.nullish(),
});

export const completionsDescription: EndpointDescription = {
  endpoint: completions,
  id: 'createCompletion',
  summary: 'Create a completion',
  description: `Compatible with OpenAI's API, for models that offer \`completions\`. \`prompt\` is a string, an array of strings, an array of token
ids, or an array of such arrays; each prompt has its own choices. Without \`max_tokens\` the limit of the model applies. The rules for
additional fields are those of chat completions. ${streamText('CompletionChunk')}`,
  request: {
    schema: 'CompletionRequest',
    example: { model: 'small-text', prompt: 'Once upon a time', max_tokens: 50 },
  },
  answer: {
    description: 'The completion, or its events if `stream` is true.',
    schema: 'Completion',
    example: {
      id: 'cmpl-7f3a',
      object: 'text_completion',
      created: 1_767_225_600,
      model: 'small-text',
      choices: [{ index: 0, text: ', there was a queue.', finish_reason: 'stop', logprobs: null }],
      usage: { prompt_tokens: 4, completion_tokens: 6, total_tokens: 10 },
    },
  },
  stream: chunkStream('CompletionChunk', { model: 'small-text', choices: [{ index: 0, text: ', there' }] }),
  schemas: { Completion: completion, CompletionChunk: completionChunk, StreamError: streamError },
};
