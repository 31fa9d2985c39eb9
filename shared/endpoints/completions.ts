import { z } from 'zod';
import { isObject } from '../json/json-values.ts';
import {
  type AssembledChoice,
  createChoicesAssembler,
  type MergedDeltas,
  mergeDeltas,
} from './chat-stream/assemble-choices.ts';
import { choicesAnswers } from './chat-stream/choices-answers.ts';
import type { ChoicesKind } from './chat-stream/present-chunks.ts';
import type { SizeBudget } from './definition/answer-format.ts';
import { type Endpoint, noHeaders, type RequestFormat } from './definition/endpoint.ts';
import {
  fewStops,
  logitBias,
  penalty,
  promptInput,
  promptsIn,
  streamFlag,
  streamOptions,
  temperature,
  topP,
  withUsageAtEnd,
} from './fields/common-fields.ts';
import { choicesMax, readOutputLimit } from './fields/output-limit.ts';
import { defaultExtraFields, publishedFields } from './fields/refused-fields.ts';
import { estimatePrompts, promptsOf } from './tokens/prompt-texts.ts';

const count = z.int().positive();

/** An answer that is cut ends each of them with an event. */
const allChoicesMax = 2_048;
/** More ids hardly tell prompts apart. */
const idsReadMax = 16_384;

/**
 * All fields of OpenAI's published description of `POST /v1/completions` (openai/openai-openapi, `CreateCompletionRequest`). Model servers
 * allow more log probabilities than OpenAI.
 */
const completionRequestSchema = z
  .looseObject({
    model: z.string().min(1).meta({ description: "A model of the caller's plan that offers `completions`." }),
    prompt: promptInput,
    best_of: count.max(choicesMax).nullish().meta({ description: 'Choices to generate; the best `n` are returned.' }),
    echo: z.boolean().nullish().meta({ description: 'Whether the answer begins with the prompt.' }),
    frequency_penalty: penalty.nullish(),
    logit_bias: logitBias.nullish(),
    logprobs: z.int().min(0).max(20).nullish(),
    max_tokens: count.nullish().meta({ description: "Maximum number of output tokens. Default: the model's limit." }),
    n: count.max(choicesMax).nullish().meta({ description: 'Number of choices for each prompt.' }),
    presence_penalty: penalty.nullish(),
    seed: z.number().nullish(),
    stop: fewStops.nullish(),
    stream: streamFlag.nullish(),
    stream_options: streamOptions.nullish(),
    suffix: z.string().nullish(),
    temperature: temperature.nullish(),
    top_p: topP.nullish(),
    user: z.string().nullish(),
  })
  .refine(({ stream, stream_options }) => stream === true || stream_options == null, {
    path: ['stream_options'],
    error: 'is only allowed with stream: true',
  })
  .refine(({ prompt, n, best_of }) => Math.max(n ?? 1, best_of ?? 1) * promptsIn(prompt).prompts <= allChoicesMax, {
    path: ['prompt'],
    error: `expected at most ${allChoicesMax} choices of all prompts together`,
  });

type CompletionRequest = z.infer<typeof completionRequestSchema>;

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

  estimatePrompt: (completion, text) => estimatePrompts(completion, 'prompt', text),

  promptOf: (payload) => promptsOf({ ...payload }, 'prompt'),
  partsOf: (completion: { prompt?: unknown }) => ({ head: [], messages: firstPrompt(completion.prompt) }),
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

/** A text or token ids, alone or as the first of several. */
function firstPrompt(prompt: unknown): string {
  const [first] = Array.isArray(prompt) ? prompt : [prompt];
  if (typeof first === 'string') return first;
  const ids: unknown = Array.isArray(first) ? first : prompt;
  return Array.isArray(ids) ? ids.slice(0, idsReadMax).join(' ') : '';
}

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

/** Assembles a choice of a completion. Its log probabilities are lists of the same length, each of which grows. */
function createCompletionChoice(budget: SizeBudget): AssembledChoice {
  const fields = mergeDeltas(budget);
  let allLogprobs: MergedDeltas | undefined;
  return {
    add(part, size) {
      const { text, logprobs, finish_reason: reason, index: _, usage: _usage, ...others } = part;
      if (text != null) fields.extend('text', text, size);
      // Some servers send an empty reason for none.
      if (reason !== undefined) fields.replace('finish_reason', reason || null, size);
      for (const name in others) fields.replace(name, others[name], size);
      if (!isObject(logprobs)) return;
      allLogprobs ??= mergeDeltas(budget);
      for (const name in logprobs) allLogprobs.extend(name, logprobs[name], size);
    },
    end: (reason) => fields.replace('finish_reason', reason, 0),
    toObject: () => ({
      text: '',
      logprobs: allLogprobs?.toObject() ?? null,
      finish_reason: null,
      ...fields.toObject(),
    }),
  };
}

/** OpenAI's fields, except `best_of`, which needs all of the answers, and `echo`, which some servers ignore in a stream. */
const openai = [
  ...['model', 'prompt', 'stream', 'stream_options', 'max_tokens', 'temperature', 'top_p', 'n', 'stop', 'seed'],
  ...['user', 'suffix', 'presence_penalty', 'frequency_penalty', 'logit_bias', 'logprobs'],
];

const meansTheSame = new Set([...openai, ...defaultExtraFields]);

/** As `canBeAssembled` of chat completions. A field that is null or false has no effect. */
function canBeAssembled(request: CompletionRequest): boolean {
  return Object.entries(request).every(([field, value]) => value == null || value === false || meansTheSame.has(field));
}
