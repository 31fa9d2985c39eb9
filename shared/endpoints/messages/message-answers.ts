import { z } from 'zod';
import { BackendError } from '../answers/backend-error.ts';
import { notAnAnswer } from '../answers/backend-said.ts';
import { cutFields } from '../answers/cut-text.ts';
import { requireEnded } from '../answers/ended-reason.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { mapped, withMissing } from '../answers/with-missing.ts';
import { writtenText } from '../answers/written-text.ts';
import type { AnswerContext, AnswerTokens, WholeAnswer } from '../definition/answer-format.ts';
import { isReason, publishedBlock, publishedEnd } from './message-blocks.ts';
import { presentUsage, readUsage } from './message-usage.ts';

const messageSchema = z.looseObject({
  type: z.literal('message'),
  model: z.string().nullish(),
  content: z.array(z.looseObject({})),
});

/** A whole message (Anthropic API reference, messages). */
export type MessageAnswer = WholeAnswer & { answer: z.infer<typeof messageSchema> };

export function parseMessage(text: string): MessageAnswer {
  const value = parseBackendJson(text, 'the answer');
  const parsed = messageSchema.safeParse(value);
  if (!parsed.success || parsed.data.error != null)
    throw notAnAnswer(value, 'the answer is not a message', { cause: parsed.error });
  const { stop_reason: reason, usage } = parsed.data;
  requireEnded(reason);
  if (!isReason(reason)) throw new BackendError('interrupted', 'the message has no stop_reason');
  return { text, answer: parsed.data, usage: readUsage(usage) };
}

export function messageText({ answer }: MessageAnswer): string {
  return writtenText(answer.content);
}

/** Returns this share of a message, from its beginning. */
export function cutMessage({ answer, usage }: MessageAnswer, share: number): MessageAnswer {
  const budget = { left: Math.floor(writtenText(answer.content).length * share) };
  const cut = { ...answer, ...cutFields({ content: answer.content }, budget), stop_reason: 'max_tokens' };
  return { text: JSON.stringify(cut), answer: cut as MessageAnswer['answer'], usage }; // only texts and the end of lists were cut
}

/** Returns the message for the client: unchanged, unless the model has another name, or a property or the usage has to be added. */
export function presentMessage(
  { text, answer, usage }: MessageAnswer,
  tokens: AnswerTokens,
  context: AnswerContext,
): string {
  const content = mapped(answer.content, (block, index) => publishedBlock(block, index, context));
  const published = publishedEnd(content === answer.content ? answer : { ...answer, content });
  const complete = withMissing(published, requiredOf(context));
  const isUnchanged = complete === answer && answer.model === context.model;
  const { promptTokens, completionTokens } = tokens;
  if (isUnchanged && usage?.completionTokens === completionTokens && usage.promptTokens === promptTokens) return text;
  return JSON.stringify({ ...complete, model: context.model, usage: presentUsage(tokens, usage && answer.usage) });
}

/** The properties that every message has, with what stands for a missing one. */
export function requiredOf({ requestId, model }: AnswerContext) {
  return {
    id: `msg_${requestId}`,
    type: 'message',
    role: 'assistant',
    model,
    stop_reason: null,
    stop_sequence: null,
  };
}
