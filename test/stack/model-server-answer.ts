import { z } from 'zod';
import {
  answerFor,
  digest,
  lastUserText,
  type Message,
  pieces,
  promptTokensOf,
  refusalFor,
  thoughtsFor,
} from './model-server-text.ts';

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

/** One choice, as the tokens that it consists of. */
export interface Choice {
  /** The reasoning before the text. */
  readonly reasoning: readonly string[];
  readonly content: readonly string[] | null;
  readonly refusal: readonly string[] | null;
  /** Whether each token of the text has its probability. */
  readonly logprobs: boolean;
  readonly toolCalls: readonly ToolCall[];
  readonly finishReason: 'stop' | 'length' | 'tool_calls';
}

interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: readonly string[];
}

export interface Answer {
  readonly choices: readonly Choice[];
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/**
 * What the model answers: text, or calls of the tools that the last user message requests with `call <name>`, or a refusal if that
 * message says `refuse to answer`. It reasons first if the message says `think aloud`.
 */
export function answerChat(chat: Chat): Answer {
  const infinite = Number.POSITIVE_INFINITY;
  const tokensMax = Math.min(chat.max_completion_tokens ?? infinite, chat.max_tokens ?? infinite);
  const choices = Array.from({ length: chat.n ?? 1 }, (_, index) => choiceOf(chat, index, tokensMax));
  return {
    choices,
    promptTokens: promptTokensOf(chat.messages),
    completionTokens: choices.reduce((sum, choice) => sum + tokensOf(choice), 0),
  };
}

/** The arguments that the simulated model passes to every tool, as JSON. */
export function toolArgumentsFor(messages: readonly Message[]): string {
  return JSON.stringify({ said: lastUserText(messages).slice(0, 200).toWellFormed(), digest: digest(messages) });
}

function choiceOf(chat: Chat, index: number, tokensMax: number): Choice {
  const names = toolsCalled(chat);
  if (names.length === 0) return textChoice(chat, index, tokensMax);
  const tokens = pieces(toolArgumentsFor(chat.messages));
  const toolCalls = names.map((name, call) => ({
    id: `call_${digest(chat.messages)}_${index}_${call}`,
    name,
    // The limit applies to all calls of the choice together: each gets what the previous ones left.
    arguments: tokens.slice(0, Math.max(0, tokensMax - call * tokens.length)),
  }));
  const cut = names.length * tokens.length > tokensMax;
  return {
    ...{ reasoning: [], content: null, refusal: null, logprobs: false },
    ...{ toolCalls, finishReason: cut ? 'length' : 'tool_calls' },
  };
}

function textChoice({ messages, logprobs }: Chat, index: number, tokensMax: number): Choice {
  const refusal = refusalFor(messages);
  const thoughts = pieces(thoughtsFor(messages));
  const said = pieces(refusal ?? answerFor(messages, index));
  const cut = thoughts.length + said.length > tokensMax;
  const tokens = said.slice(0, Math.max(0, tokensMax - thoughts.length));
  return {
    reasoning: thoughts.slice(0, tokensMax),
    content: refusal === undefined ? tokens : null,
    refusal: refusal === undefined ? null : tokens,
    logprobs: logprobs === true,
    toolCalls: [],
    finishReason: cut ? 'length' : 'stop',
  };
}

function toolsCalled({ tools, tool_choice: toolChoice, messages }: Chat): string[] {
  if (toolChoice === 'none') return [];
  const asked = new Set(Array.from(lastUserText(messages).matchAll(/\bcall ([\w-]+)/g), ([, name]) => name));
  return (tools ?? []).flatMap((tool) => (tool.function && asked.has(tool.function.name) ? [tool.function.name] : []));
}

function tokensOf({ reasoning, content, refusal, toolCalls }: Choice): number {
  const text = reasoning.length + (content?.length ?? 0) + (refusal?.length ?? 0);
  return toolCalls.reduce((sum, call) => sum + call.arguments.length, text);
}
