import { z } from 'zod';
import { type Demo, demoTokens } from '../model/demo-answers.ts';
import { answerFor, pieces } from '../model/text.ts';

const ids = z.array(z.int().min(0)).min(1);
const count = z.int().min(0).nullish();

/** What the simulated server requires of a completion. All other fields are recorded and ignored. */
export const completionSchema = z
  .looseObject({
    model: z.string().min(1),
    prompt: z.union([z.string(), z.array(z.string()).min(1), ids, z.array(ids).min(1)]),
    stream: z.boolean().nullish(),
    stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
    max_tokens: count,
    n: z.int().positive().nullish(),
    best_of: count,
    echo: z.boolean().nullish(),
    logprobs: count,
  })
  .refine(({ n, best_of: bestOf }) => (bestOf ?? n ?? 1) >= (n ?? 1), { path: ['best_of'], error: 'is less than n' });

export type Completion = z.infer<typeof completionSchema>;

/** One choice, as the tokens that it consists of. `prompt` has the tokens of its prompt if the request says `echo`. */
export interface CompletionChoice {
  readonly prompt: readonly string[];
  readonly content: readonly string[];
  readonly finishReason: 'stop' | 'length';
}

export interface CompletionAnswer {
  /** The choices of the first prompt, then those of the second, and so on. */
  readonly choices: readonly CompletionChoice[];
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Each prompt as its tokens. */
  readonly prompts: readonly (readonly string[])[];
}

/**
 * What the model answers to a completion: to each prompt what it would answer to a user's message with the same text. Tests use it to
 * predict a reply and its token counts. Of `best_of` choices, only those that are returned count.
 */
export function answerCompletion(completion: Completion, demo?: Demo): CompletionAnswer {
  const { model, prompt, n, max_tokens: limit, echo } = completion;
  const tokensMax = limit ?? Number.POSITIVE_INFINITY;
  const prompts = promptsOf(prompt);
  const choices = prompts.flatMap((tokens) =>
    Array.from({ length: n ?? 1 }, (_, index): CompletionChoice => {
      const messages = [{ role: 'user', content: tokens.join('') }];
      const said =
        demo === undefined ? pieces(answerFor(messages, index)) : demoTokens({ model, messages, choice: index }, demo);
      const finishReason = said.length > tokensMax ? 'length' : 'stop';
      return { prompt: echo ? tokens : [], content: said.slice(0, tokensMax), finishReason };
    }),
  );
  return {
    choices,
    prompts,
    promptTokens: prompts.reduce((sum, tokens) => sum + tokens.length, 0),
    completionTokens: choices.reduce((sum, { content }) => sum + content.length, 0),
  };
}

/** Each prompt as its tokens. A token id is read as a token that consists of the id's digits. */
function promptsOf(prompt: Completion['prompt']): string[][] {
  if (typeof prompt === 'string') return [pieces(prompt)];
  const numbers = prompt.filter((part) => typeof part === 'number');
  if (numbers.length > 0) return [wordsOf(numbers)];
  return prompt.flatMap((part) => {
    if (typeof part === 'number') return [];
    return [typeof part === 'string' ? pieces(part) : wordsOf(part)];
  });
}

function wordsOf(tokenIds: readonly number[]): string[] {
  return tokenIds.map((id, index) => `${index === 0 ? '' : ' '}${id}`);
}
