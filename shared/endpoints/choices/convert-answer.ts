import { isObject } from '../../is-object.ts';
import { notAnAnswer } from '../answers/backend-said.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import type { AnswerContext, AnswerTokens, ReportedUsage, WholeAnswer } from '../definition/answer-format.ts';
import { type ChoicesAnswer, choicesAnswerSchema, usageSchema, writtenIn } from './choices-schemas.ts';
import { type ChoicesKind, completeAnswer } from './required-properties.ts';

/** A whole answer, parsed. */
export type BackendAnswer = WholeAnswer & { answer: ChoicesAnswer };

export function parseAnswer(text: string): BackendAnswer {
  const value = parseBackendJson(text, 'the answer');
  const parsed = choicesAnswerSchema.safeParse(value);
  // As in a stream: passed on, an error beside choices would show a client what is only for operators.
  if (!parsed.success || parsed.data.error != null)
    throw notAnAnswer(value, 'the answer has no choices', { cause: parsed.error });
  return { text, answer: parsed.data, usage: readUsage(parsed.data.usage) };
}

/** Returns the tokens in a backend's `usage`, or undefined if there is none. */
export function readUsage(usage: unknown): ReportedUsage | undefined {
  const parsed = usageSchema.safeParse(usage);
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
  return answer.choices.map(writtenIn).join('\n');
}

/**
 * Returns the answer for the client: as the backend wrote it, unless the backend uses another name for the model, left out a required
 * property, or reported no usage or more than is charged. Then these are replaced.
 */
export function presentAnswer(
  { text, answer, usage }: BackendAnswer,
  tokens: AnswerTokens,
  { kind, ...context }: AnswerContext & { kind: ChoicesKind },
): string {
  const { model } = context;
  const complete = completeAnswer(answer, kind, context);
  const isUnchanged = complete === answer && answer.model === model;
  if (isUnchanged && usage?.completionTokens === tokens.completionTokens) return text;
  return JSON.stringify({ ...complete, model, usage: presentUsage(tokens, usage && answer.usage) });
}

/** Usage in OpenAI's shape: as the backend reported it if the tokens are the same, else with the backend's other fields. */
export function presentUsage({ promptTokens, completionTokens }: AnswerTokens, reported?: unknown) {
  const own = readUsage(reported);
  const total = { total_tokens: promptTokens + completionTokens };
  if (own?.completionTokens === completionTokens) return withTotal(reported, total);
  return {
    ...(own !== undefined && withoutDetails(reported)),
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    ...total,
  };
}

function withTotal(reported: unknown, total: object): unknown {
  return isObject(reported) && reported.total_tokens === undefined ? { ...reported, ...total } : reported;
}

/** The details could be more than the tokens that they are a part of. */
function withoutDetails(reported: unknown): object {
  const { completion_tokens_details, ...rest } = reported as { completion_tokens_details?: unknown }; // it was read as an object
  return rest;
}
