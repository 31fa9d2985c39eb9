import { isObject, type Json } from '../../json/json-values.ts';
import { tokensIn, withMissing } from '../answers/with-missing.ts';
import type { AnswerTokens, ReportedUsage } from '../definition/answer-format.ts';

type Answer = Json & { choices: readonly Json[] };

/**
 * Returns the tokens in a backend's `usage`, or undefined if there is none. Tokens that its cache had are in OpenAI's field, Moonshot's or
 * DeepSeek's. Called for every token of some servers, so without a schema.
 */
export function readUsage(usage: unknown): ReportedUsage | undefined {
  if (!isObject(usage)) return undefined;
  const [promptTokens, completed] = [tokensIn(usage.prompt_tokens), tokensIn(usage.completion_tokens)];
  if (promptTokens === undefined || completed === undefined) return undefined;
  const cached = Math.max(
    tokensIn(usage.cached_tokens) ?? 0,
    tokensIn(usage.prompt_cache_hit_tokens) ?? 0,
    detail(usage.prompt_tokens_details, 'cached_tokens'),
  );
  // xAI counts reasoning in the total only.
  const uncounted = Math.max(0, (tokensIn(usage.total_tokens) ?? 0) - promptTokens - completed);
  const reasoning = Math.min(uncounted, detail(usage.completion_tokens_details, 'reasoning_tokens'));
  return { promptTokens, completionTokens: completed + reasoning, cachedTokens: Math.min(cached, promptTokens) };
}

function detail(details: unknown, name: string): number {
  return isObject(details) ? (tokensIn(details[name]) ?? 0) : 0;
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
  if (!hasUsage(answer) && !answer.choices.some(hasUsage)) return answer;
  const { x_groq, ...rest } = without(answer);
  const choices = answer.choices.map((choice) => (hasUsage(choice) ? without(choice) : choice));
  const group = x_groq === undefined ? {} : { x_groq: isObject(x_groq) ? without(x_groq) : x_groq };
  const left: Answer = { ...rest, ...group, choices };
  return left as T; // only usage was left out
}

function hasUsage({ usage, x_groq }: Json): boolean {
  return usage !== undefined || (isObject(x_groq) && x_groq.usage !== undefined);
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
