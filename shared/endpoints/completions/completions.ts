import { createChoicesAssembler } from '../choices/assemble-choices.ts';
import { choicesAnswers } from '../choices/choices-answers.ts';
import type { ChoicesKind } from '../choices/required-properties.ts';
import { type Endpoint, noHeaders } from '../definition/endpoint.ts';
import type { RequestFormat } from '../definition/request-format.ts';
import { withUsageAtEnd } from '../fields/common-fields.ts';
import { readOutputLimit } from '../fields/output-limit.ts';
import { promptsIn } from '../fields/prompt-input.ts';
import { publishedFields } from '../fields/refused-fields.ts';
import { estimatePrompts, promptsOf } from '../tokens/estimate-prompts.ts';
import { generationCost } from '../tokens/request-cost.ts';
import { canBeAssembled, createCompletionChoice } from './assemble-completion.ts';
import { allChoicesMax, type CompletionRequest, completionRequestSchema } from './completion-request.ts';

const request: RequestFormat = {
  schema: completionRequestSchema,
  fields: {
    published: publishedFields(completionRequestSchema.shape),
    media: ['messages'],
    holdTools: ['messages'],
    outputFormat: ['response_format'],
  },
  promptField: 'prompt',
  limitFields: ['max_tokens'],

  ask(completion: CompletionRequest) {
    const stream = completion.stream === true;
    const assembled = !stream && canBeAssembled(completion);
    return {
      model: completion.model,
      stream,
      assembled,
      includeUsage: completion.stream_options?.include_usage === true,
      choices: (completion.n ?? 1) * promptsIn(completion.prompt).prompts,
      // The client's field would contradict the stream that the worker requests.
      fields: assembled ? { stream_options: undefined } : {},
      changes: stream ? { stream_options: withUsageAtEnd } : {},
    };
  },

  cost(completion: CompletionRequest, { text, model }) {
    const { prompts } = promptsIn(completion.prompt);
    const promptTokens = request.estimatePrompt(completion, text);
    return generationCost(completion, {
      promptTokens,
      promptField: request.promptField,
      limitFields: request.limitFields,
      prompts,
      model,
    });
  },
  estimatePrompt: (completion, text) => estimatePrompts(completion, 'prompt', text),

  promptOf: (payload) => promptsOf({ ...payload }, 'prompt'),
  promptsIn: (payload: { prompt?: unknown }) => promptsIn(payload.prompt).prompts,
  choicesOf: (payload: { prompt?: unknown }) => choicesOfEach(payload) * promptsIn(payload.prompt).prompts,
  repeatsOfPrompt(payload) {
    // Most payloads need not be parsed: a quote inside of a string is escaped, so this is never a part of the prompt.
    if (!payload.includes('"echo":true')) return 0;
    const { echo, n }: { echo?: unknown; n?: unknown } = JSON.parse(payload);
    // Only choices that are returned repeat it, unlike those that `best_of` adds.
    return echo === true ? Number(n ?? 1) : 0;
  },
};

function choicesOfEach(payload: object): number {
  return readOutputLimit({ ...payload }, { outputTokensMax: Number.POSITIVE_INFINITY }).choices.value;
}

const completionsKind: ChoicesKind = {
  object: 'text_completion',
  chunkObject: 'text_completion',
  idPrefix: 'cmpl-',
  choicesMax: allChoicesMax,
  choice: { text: '', finish_reason: null, logprobs: null },
  chunkChoice: { text: '', finish_reason: null, logprobs: null },
  ended: { text: '' },
};

/** `POST /v1/completions`. */
export const completions: Endpoint = {
  name: 'completions',
  path: '/v1/completions',
  request,
  answer: choicesAnswers(completionsKind, {
    fields: { stream_options: { include_usage: true } },
    create: createChoicesAssembler(completionsKind, createCompletionChoice),
  }),
  headers: noHeaders,
  inBatches: true,
};
