import type { z } from 'zod';
import { chatAnswerSchema, chatUsageSchema } from '../../shared/chat-call/chat-completion.ts';
import { BackendError } from '../exchange/backend-error.ts';
import { parseBackendJson } from './parse-backend-json.ts';

/** A whole answer, parsed. `usage` is undefined if the backend reported none that can be read. */
export type BackendAnswer = {
  text: string;
  answer: z.infer<typeof chatAnswerSchema>;
  usage: { promptTokens: number; completionTokens: number; cachedTokens: number } | undefined;
};

export function parseAnswer(text: string): BackendAnswer {
  const parsed = chatAnswerSchema.safeParse(parseBackendJson(text, 'the answer'));
  if (!parsed.success)
    throw new BackendError('unreadable', 'the answer is not a chat completion', { cause: parsed.error });
  // As in a stream: passed on, it would show a client what is only for operators.
  if (parsed.data.error != null) throw new BackendError('unreadable', 'the answer names an error');
  return { text, answer: parsed.data, usage: readUsage(parsed.data.usage) };
}

/** Returns the tokens in a backend's `usage`, or undefined if there is none. */
export function readUsage(usage: unknown): BackendAnswer['usage'] {
  const parsed = chatUsageSchema.safeParse(usage);
  if (!parsed.success) return undefined;
  const {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    prompt_tokens_details: details,
  } = parsed.data;
  return { promptTokens, completionTokens, cachedTokens: Math.min(details?.cached_tokens ?? 0, promptTokens) };
}

/** All that the model has written, for counting. */
export function answerText({ answer }: BackendAnswer): string {
  return answer.choices.map(({ message }) => writtenText(message)).join('\n');
}

const labels = new Set(['role', 'id', 'type']);
const depthMax = 8;

/** What the model wrote in a message or a part of one: every text in it, as content, reasoning or a tool call. */
export function writtenText(value: unknown, depth = 0): string {
  if (typeof value === 'string') return value;
  if (typeof value !== 'object' || value === null || depth > depthMax) return '';
  const fields: Readonly<Record<string, unknown>> = { ...value };
  let text = '';
  for (const name in fields) if (!labels.has(name)) text += writtenText(fields[name], depth + 1);
  return text;
}

/**
 * Returns the answer for the client: as the backend wrote it, unless the backend uses another name for the model, or reported no usage or
 * more than is charged. Then these are replaced.
 */
export function presentAnswer({ text, answer, usage }: BackendAnswer, model: string, tokens: Tokens): string {
  if (answer.model === model && usage?.completionTokens === tokens.completionTokens) return text;
  return JSON.stringify({ ...answer, model, usage: presentUsage(tokens, usage && answer.usage) });
}

type Tokens = { promptTokens: number; completionTokens: number };

/** Usage in OpenAI's shape: as the backend reported it if the tokens are the same, else with the backend's other fields. */
export function presentUsage({ promptTokens, completionTokens }: Tokens, reported?: unknown) {
  const own = readUsage(reported);
  if (own?.completionTokens === completionTokens) return reported;
  return {
    ...(own !== undefined && withoutDetails(reported)),
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
}

/** The details could be more than the tokens that they are a part of. */
function withoutDetails(reported: unknown): object {
  const { completion_tokens_details, ...rest } = reported as { completion_tokens_details?: unknown }; // it was read as an object
  return rest;
}
