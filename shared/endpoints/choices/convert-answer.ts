import { notAnAnswer } from '../answers/backend-said.ts';
import { requireEnded } from '../answers/ended-reason.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import type { AnswerContext, AnswerTokens, ReportedUsage, WholeAnswer } from '../definition/answer-format.ts';
import { type ChoicesAnswer, choicesAnswerSchema, writtenIn } from './choices-schemas.ts';
import { isPresentedAs, presentUsage, readUsage, sumOfChoices, usageIn, withoutUsage } from './choices-usage.ts';
import { type ChoicesKind, completeAnswer } from './required-properties.ts';

/** A whole answer, parsed. */
export type BackendAnswer = WholeAnswer & { answer: ChoicesAnswer };

export function parseAnswer(text: string): BackendAnswer {
  const value = parseBackendJson(text, 'the answer');
  const parsed = choicesAnswerSchema.safeParse(value);
  // As in a stream: passed on, an error beside choices would show a client what is only for operators.
  if (!parsed.success || parsed.data.error != null)
    throw notAnAnswer(value, 'the answer has no choices', { cause: parsed.error });
  for (const choice of parsed.data.choices) requireEnded(choice.finish_reason);
  return { text, answer: parsed.data, usage: usageOf(parsed.data) };
}

/** Some servers report the usage of each choice in it. */
function usageOf(answer: ChoicesAnswer): ReportedUsage | undefined {
  const reported = usageIn(answer);
  if (reported !== undefined) return readUsage(reported);
  const ofChoices = answer.choices.flatMap(({ usage }) => readUsage(usage) ?? []);
  return ofChoices.length < answer.choices.length ? undefined : sumOfChoices(ofChoices);
}

/** All that the model has written, for counting. */
export function answerText({ answer }: BackendAnswer): string {
  return answer.choices.map(writtenIn).join('\n');
}

/**
 * Returns the answer for the client: as the backend wrote it, unless the backend uses another name for the model, left out a required
 * property, or reported no usage or another than is charged. Then these are replaced.
 */
export function presentAnswer(
  { text, answer }: BackendAnswer,
  tokens: AnswerTokens,
  { kind, ...context }: AnswerContext & { kind: ChoicesKind },
): string {
  const { model } = context;
  const complete = completeAnswer(answer, kind, context);
  const isUnchanged = complete === answer && answer.model === model;
  if (isUnchanged && isPresentedAs(answer.usage, tokens)) return text;
  return JSON.stringify({ ...withoutUsage(complete), model, usage: presentUsage(tokens, usageIn(answer)) });
}
