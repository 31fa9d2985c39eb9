import { z } from 'zod';
import { fewStops, logitBias, penalty, streamFlag, streamOptions, temperature, topP } from '../fields/common-fields.ts';
import { choicesMax } from '../fields/output-limit.ts';
import { promptInput, promptsIn } from '../fields/prompt-input.ts';

const count = z.int().positive();

/** An answer that is cut ends each of them with an event. */
export const allChoicesMax = 2_048;

/**
 * All fields of OpenAI's published description of `POST /v1/completions` (openai/openai-openapi, `CreateCompletionRequest`). Model servers
 * allow more log probabilities than OpenAI.
 */
export const completionRequestSchema = z
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

export type CompletionRequest = z.infer<typeof completionRequestSchema>;
