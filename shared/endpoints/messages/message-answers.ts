import { z } from 'zod';
import { isObject, type Json } from '../../json/json-values.ts';
import { BackendError, notAnAnswer, requireEnded } from '../answers/backend-error.ts';
import type { TypedEvent } from '../answers/convert-events.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { mapped, reportedTokens, withMissing } from '../answers/with-missing.ts';
import { cutFields, writtenText } from '../answers/written-text.ts';
import type { AnswerContext, AnswerTokens, ReportedUsage, WholeAnswer } from '../definition/answer-format.ts';

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

type Context = Pick<AnswerContext, 'requestId'>;

/** Some servers send null or an empty text for a reason that they do not have. */
export function isReason(reason: unknown): reason is string {
  return typeof reason === 'string' && reason !== '';
}

/** Returns a block as Anthropic publishes calls of tools, with an id and an object as its input (contract.md#ms12-tool-calls-and-lists). */
function publishedBlock<T extends Json>(block: T, index: unknown, { requestId }: Context): T {
  if (block.type !== 'tool_use') return block;
  const id = isReason(block.id) ? block.id : `toolu_${requestId.replace('req_', '')}_${index}`;
  const input = isObject(block.input) ? block.input : objectIn(block.input);
  return id === block.id && input === block.input ? block : { ...block, id, input };
}

/** The input that a text has: empty if it is no JSON object, as one that ends early. */
export function objectIn(text: unknown): Json {
  try {
    const value: unknown = parseBackendJson(String(text), 'an input');
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/**
 * Some servers name the sequence at which a message has ended, and say that it ended without one (contract.md#ms12-tool-calls-and-lists).
 */
function publishedEnd<T extends Json>(end: T): T {
  return end.stop_reason === 'end_turn' && isReason(end.stop_sequence) ? { ...end, stop_reason: 'stop_sequence' } : end;
}

/** Does the same for an event that begins a block, continues the input of one, which comes as text, or ends the message. */
export function publishedEvent(event: TypedEvent, context: Context): TypedEvent {
  const { type, index, content_block: given, delta } = event;
  if (type === 'content_block_start' && isObject(given)) {
    const block = publishedBlock(given, index, context);
    return block === given ? event : { ...event, content_block: block };
  }
  if (!isObject(delta)) return event;
  if (type === 'message_delta') return { ...event, delta: publishedEnd(delta) };
  if (delta.type !== 'input_json_delta' || !isObject(delta.partial_json)) return event;
  return { ...event, delta: { ...delta, partial_json: JSON.stringify(delta.partial_json) } };
}

const usageSchema = z.looseObject({
  input_tokens: reportedTokens,
  output_tokens: reportedTokens,
  cache_creation_input_tokens: reportedTokens.nullish(),
  cache_read_input_tokens: reportedTokens.nullish(),
  iterations: z.array(z.unknown()).nullish().catch(undefined),
});

/**
 * Returns the tokens in a backend's `usage`, or undefined if there is none. `input_tokens` are only those that no cache has. What the
 * provider has read and written to shorten the conversation is not among them, and counts as prompt: no output limit bounds it
 * (contract.md#ho5-proof-of-usage).
 */
export function readUsage(usage: unknown): ReportedUsage | undefined {
  const { data } = usageSchema.safeParse(usage);
  if (data === undefined) return undefined;
  let cachedTokens = data.cache_read_input_tokens ?? 0;
  let promptTokens = data.input_tokens + (data.cache_creation_input_tokens ?? 0) + cachedTokens;
  for (const iteration of data.iterations ?? []) {
    if (!isObject(iteration) || iteration.type !== 'compaction') continue;
    const compaction = readUsage({ ...iteration, iterations: undefined });
    cachedTokens += compaction?.cachedTokens ?? 0;
    promptTokens += (compaction?.promptTokens ?? 0) + (compaction?.completionTokens ?? 0);
  }
  return { promptTokens, completionTokens: data.output_tokens, cachedTokens };
}

/**
 * Usage in Anthropic's shape: as the backend reported it, except for the tokens that are charged; or all of it, if it reported none.
 * Details of other tokens could be more than those that they are a part of.
 */
export function presentUsage({ promptTokens, completionTokens }: AnswerTokens, reported?: unknown): object {
  const counts = { cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
  if (!isObject(reported)) return { input_tokens: promptTokens, ...counts, output_tokens: completionTokens };
  const input = readUsage(reported)?.promptTokens === 0 ? { input_tokens: promptTokens } : {};
  if (reported.output_tokens === completionTokens) return { ...reported, ...input };
  const { output_tokens_details: _, ...rest } = reported;
  return { ...rest, ...input, output_tokens: completionTokens };
}

/** The usage with the counts of a later event. Null and zero do not replace a count. */
export function withCounts(
  usage: Readonly<Record<string, unknown>>,
  counts: unknown,
): Readonly<Record<string, unknown>> {
  if (!isObject(counts)) return usage;
  const counted = Object.entries(counts).filter(
    ([name, count]) => count !== null && (count !== 0 || usage[name] == null),
  );
  return { ...usage, ...Object.fromEntries(counted) };
}
