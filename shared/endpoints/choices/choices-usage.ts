import { z } from 'zod';
import { isObject } from '../../is-object.ts';
import { reportedTokens } from '../answers/reported-tokens.ts';
import { mapped, withMissing } from '../answers/with-missing.ts';
import type { AnswerTokens, ReportedUsage } from '../definition/answer-format.ts';

type Json = Readonly<Record<string, unknown>>;
type Answer = Json & { choices: readonly Json[] };

const optionalTokens = reportedTokens.nullish().catch(undefined);

/** Usage as a backend reports it. Tokens that its cache had: OpenAI's field, Moonshot's, DeepSeek's. */
const usageSchema = z.looseObject({
  prompt_tokens: reportedTokens,
  completion_tokens: reportedTokens,
  total_tokens: optionalTokens,
  prompt_tokens_details: z.looseObject({ cached_tokens: optionalTokens }).nullish().catch(undefined),
  completion_tokens_details: z.looseObject({ reasoning_tokens: optionalTokens }).nullish().catch(undefined),
  cached_tokens: optionalTokens,
  prompt_cache_hit_tokens: optionalTokens,
});

/** Returns the tokens in a backend's `usage`, or undefined if there is none. */
export function readUsage(usage: unknown): ReportedUsage | undefined {
  const { data } = usageSchema.safeParse(usage);
  if (data === undefined) return undefined;
  const { prompt_tokens: promptTokens, completion_tokens: completed, prompt_tokens_details: details } = data;
  const cached = Math.max(details?.cached_tokens ?? 0, data.cached_tokens ?? 0, data.prompt_cache_hit_tokens ?? 0);
  // xAI counts reasoning in the total only.
  const uncounted = Math.max(0, (data.total_tokens ?? 0) - promptTokens - completed);
  const reasoning = Math.min(uncounted, data.completion_tokens_details?.reasoning_tokens ?? 0);
  return { promptTokens, completionTokens: completed + reasoning, cachedTokens: Math.min(cached, promptTokens) };
}

/**
 * The usage of several choices, of which each was reported alone; undefined without any. Each has the tokens of its prompt, which
 * `choicesOfPrompt` of them share.
 */
export function sumOfChoices(
  reports: readonly ReportedUsage[],
  choicesOfPrompt = reports.length,
): ReportedUsage | undefined {
  if (reports.length === 0) return undefined;
  const sum = (name: keyof AnswerTokens | 'cachedTokens') => reports.reduce((all, report) => all + report[name], 0);
  const ofPrompts = (name: 'promptTokens' | 'cachedTokens') =>
    Math.max(Math.round(sum(name) / choicesOfPrompt), ...reports.map((report) => report[name]));
  return {
    promptTokens: ofPrompts('promptTokens'),
    completionTokens: sum('completionTokens'),
    cachedTokens: ofPrompts('cachedTokens'),
  };
}

/** The usage in an answer or a chunk, as the backend wrote it. Groq has it in a field of its own, also in streams. */
export function usageIn({ usage, x_groq }: Json): unknown {
  return usage ?? (isObject(x_groq) ? (x_groq.usage ?? undefined) : undefined);
}

/** Without any usage: that of the client is another. The object itself if it has none, also no null. */
export function withoutUsage<T extends Answer>(answer: T): T {
  const choices = mapped(answer.choices, (choice) => (choice.usage === undefined ? choice : without(choice)));
  const hasOwn = answer.usage !== undefined || (isObject(answer.x_groq) && answer.x_groq.usage !== undefined);
  if (!hasOwn && choices === answer.choices) return answer;
  const { x_groq, ...rest } = without(answer);
  return {
    ...rest,
    ...(x_groq !== undefined && { x_groq: isObject(x_groq) ? without(x_groq) : x_groq }),
    choices,
  } as T; // only usage was left out
}

function without<T extends Json>({ usage: _, ...rest }: T): Json {
  return rest;
}

/** Usage in OpenAI's shape: as the backend reported it if the tokens are the same, else with the backend's other fields. */
export function presentUsage(tokens: AnswerTokens, reported?: unknown): Json {
  const { promptTokens, completionTokens } = tokens;
  const counts = { prompt_tokens: promptTokens, completion_tokens: completionTokens };
  const total = { total_tokens: promptTokens + completionTokens };
  if (isObject(reported) && hasTokens(reported, tokens)) return { ...withMissing(reported, total), ...counts };
  return { ...(readUsage(reported) !== undefined && withoutDetails(reported)), ...counts, ...total };
}

/** Whether a usage is presented as the backend wrote it. */
export function isPresentedAs(reported: unknown, tokens: AnswerTokens): boolean {
  return isObject(reported) && hasTokens(reported, tokens) && reported.completion_tokens === tokens.completionTokens;
}

function hasTokens(reported: Json, { promptTokens, completionTokens }: AnswerTokens): boolean {
  const own = readUsage(reported);
  return own?.promptTokens === promptTokens && own.completionTokens === completionTokens;
}

/** The details could be more than the tokens that they are a part of. */
function withoutDetails(reported: unknown): object {
  const { completion_tokens_details, ...rest } = reported as { completion_tokens_details?: unknown }; // it was read as an object
  return rest;
}
