import { z } from 'zod';
import { type Choice, chooseAnswer, tokensOf } from '../model/choose-answer.ts';
import type { Tool } from '../model/choose-tool.ts';
import { type Demo, demoTokens } from '../model/demo-answers.ts';
import { promptTokensOf } from '../model/text.ts';

const message = z.looseObject({
  role: z.string(),
  content: z
    .union([z.string(), z.array(z.looseObject({ type: z.string(), text: z.string().optional() })), z.null()])
    .optional(),
});

const count = z.int().positive().nullish();

/** What the simulated server requires of a chat completion. All other fields are recorded and ignored. */
export const chatSchema = z.looseObject({
  model: z.string().min(1),
  messages: z.array(message).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  max_tokens: count,
  max_completion_tokens: count,
  n: count,
  logprobs: z.boolean().nullish(),
  tools: z
    .array(z.looseObject({ type: z.string(), function: z.looseObject({ name: z.string() }).optional() }))
    .nullish(),
  tool_choice: z.unknown().optional(),
});

export type Chat = z.infer<typeof chatSchema>;

export interface ChatAnswer {
  readonly choices: readonly Choice[];
  /** Whether each token of the text has its probability. */
  readonly logprobs: boolean;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** What the model answers to a chat completion. Tests use it to predict a reply and its token counts. */
export function answerChat(chat: Chat, demo?: Demo): ChatAnswer {
  const infinite = Number.POSITIVE_INFINITY;
  const tokensMax = Math.min(chat.max_completion_tokens ?? infinite, chat.max_tokens ?? infinite);
  const { model, messages } = chat;
  const speak = demo && ((choice: number) => demoTokens({ model, messages, choice }, demo));
  const conversation = { messages, tools: toolsOf(chat), tokensMax, quotesResults: false, speak };
  const choices = Array.from({ length: chat.n ?? 1 }, (_, index) => chooseAnswer(conversation, index));
  return {
    choices,
    logprobs: chat.logprobs === true,
    promptTokens: promptTokensOf(messages),
    completionTokens: choices.reduce((sum, choice) => sum + tokensOf(choice), 0),
  };
}

function toolsOf({ tools, tool_choice: toolChoice }: Chat): Tool[] {
  if (toolChoice === 'none') return [];
  return (tools ?? []).flatMap(({ function: called }) =>
    called ? [{ name: called.name, schema: called.parameters }] : [],
  );
}
