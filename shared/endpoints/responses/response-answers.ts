import { z } from 'zod';
import { isObject, type Json } from '../../json/json-values.ts';
import { BackendError, notAnAnswer, requireEnded } from '../answers/backend-error.ts';
import type { TypedEvent } from '../answers/convert-events.ts';
import { parseBackendJson } from '../answers/parse-backend-json.ts';
import { mapped, reportedTokens, withMissing, withText } from '../answers/with-missing.ts';
import { cutFields } from '../answers/written-text.ts';
import type { AnswerContext, AnswerTokens, ReportedUsage, WholeAnswer } from '../definition/answer-format.ts';
import { outputText } from './written-output.ts';

const responseSchema = z.looseObject({
  model: z.string().nullish(),
  status: z.string().nullish(),
  output: z.array(z.looseObject({})),
});

/** A response that is `in_progress` would have to be asked for again. */
const ends = new Set(['completed', 'incomplete']);

/** A whole response (OpenAI API reference, responses). */
export type ResponseAnswer = WholeAnswer & { answer: z.infer<typeof responseSchema> };

export function parseResponse(text: string): ResponseAnswer {
  const value = parseBackendJson(text, 'the answer');
  const parsed = responseSchema.safeParse(value);
  if (!parsed.success || parsed.data.error != null)
    throw notAnAnswer(value, 'the answer is no response', { cause: parsed.error });
  const { status } = parsed.data;
  requireEnded(status);
  if (status != null && !ends.has(status)) throw new BackendError('unreadable', 'the answer is no ended response');
  return { text, answer: parsed.data, usage: readUsage(parsed.data.usage) };
}

export function responseText({ answer }: ResponseAnswer): string {
  return outputText(answer.output);
}

export const cutShort = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };

/** Returns this share of a response, from its beginning. */
export function cutResponse({ answer, usage }: ResponseAnswer, share: number): ResponseAnswer {
  const budget = { left: Math.floor(outputText(answer.output).length * share) };
  const cut = { ...answer, ...cutFields({ output: answer.output }, budget), ...cutShort };
  return { text: JSON.stringify(cut), answer: cut as ResponseAnswer['answer'], usage }; // only texts and the end of lists were cut
}

/** Returns the response for the client: unchanged, unless the model has another name, or a property or the usage has to be added. */
export function presentResponse(
  { text, answer, usage }: ResponseAnswer,
  tokens: AnswerTokens,
  context: AnswerContext,
): string {
  const complete = completeResponse(answer, context);
  const counted = presentUsage(tokens, answer.usage);
  const isSame = usage !== undefined && JSON.stringify(counted) === JSON.stringify(answer.usage);
  return complete === answer && isSame ? text : JSON.stringify({ ...complete, usage: counted });
}

/**
 * Returns a response with all properties that OpenAI's description requires, and with the client's name of the model. `status` stands for a
 * missing one.
 */
export function completeResponse(response: Json, context: AnswerContext, status = 'completed'): Json {
  const { requestId, createdAt, model } = context;
  const output = Array.isArray(response.output)
    ? mapped(response.output, (item, index) => completeItem(item, { context, index }))
    : [];
  const complete = withMissing(response, {
    id: `resp_${requestId}`,
    object: 'response',
    created_at: createdAt,
    status,
    model,
    error: null,
    incomplete_details: null,
    instructions: null,
    metadata: {},
    output: [],
    parallel_tool_calls: true,
    temperature: null,
    tool_choice: 'auto',
    tools: [],
    top_p: null,
  });
  if (output === complete.output && complete.model === model) return complete;
  return { ...complete, output, model };
}

/** By type of item: its required properties. */
const itemProperties: Readonly<Record<string, Json>> = {
  message: { role: 'assistant', content: [] },
  reasoning: { summary: [] },
  function_call: { arguments: '' },
};
const withStatus = new Set<unknown>(['message', 'function_call']);

type Place = { context: Pick<AnswerContext, 'requestId'>; index: number; status?: string };

export function completeItem(given: unknown, { context, index, status = 'completed' }: Place): unknown {
  const item = publishedItem(given, index, context);
  if (!isObject(item)) return item;
  const properties = itemProperties[String(item.type)] ?? {};
  const required = { id: `item_${index}`, ...properties, ...(withStatus.has(item.type) && { status }) };
  const complete = withMissing(item, required);
  if (complete.type !== 'message' || !Array.isArray(complete.content)) return complete;
  const content = mapped(complete.content, completePart);
  return content === complete.content ? complete : { ...complete, content };
}

export function completePart(part: unknown): unknown {
  return isObject(part) && part.type === 'output_text' ? withMissing(part, { annotations: [], logprobs: [] }) : part;
}

/** By type of event: its required properties that model servers may leave out. */
const eventProperties: Readonly<Record<string, Json>> = {
  'response.output_text.delta': { logprobs: [] },
  'response.output_text.done': { logprobs: [] },
};

export function requiredOfEvent(type: string): Json {
  return eventProperties[type] ?? {};
}

/** By type of an item that calls a tool: the member with what the tool gets, and the event that has it, too. */
const inputs: Readonly<Record<string, string>> = { function_call: 'arguments', custom_tool_call: 'input' };
const inputEvent = /^response\.(?:function_call_arguments|custom_tool_call_input)\.(?:delta|done)$/;

/** Returns an item as OpenAI publishes calls of tools, with an id and a text as its input (contract.md#ms12-tool-calls-and-lists). */
function publishedItem(item: unknown, index: number, { requestId }: Place['context']): unknown {
  if (!isObject(item)) return item;
  const input = inputs[String(item.type)];
  if (input === undefined) return item;
  const hasId = typeof item.call_id === 'string' && item.call_id !== '';
  const call = withText(item, input);
  return hasId ? call : { ...call, call_id: `call_${requestId.replace('req_', '')}_${index}` };
}

/** Does the same for an event with such an item, or with a part of its input. */
export function publishedEvent(event: TypedEvent, context: Place['context']): TypedEvent {
  if (inputEvent.test(event.type)) return ['delta', 'arguments', 'input'].reduce(withText, event);
  const item = publishedItem(event.item, Number(event.output_index) || 0, context);
  return item === event.item ? event : { ...event, item };
}

const usageSchema = z.looseObject({
  input_tokens: reportedTokens,
  output_tokens: reportedTokens,
  input_tokens_details: z.looseObject({ cached_tokens: reportedTokens.nullish() }).nullish().catch(undefined),
  output_tokens_details: z.looseObject({ reasoning_tokens: reportedTokens.nullish() }).nullish().catch(undefined),
  total_tokens: reportedTokens.nullish().catch(undefined),
});

/** Returns the tokens in a backend's `usage`, or undefined if there is none. */
export function readUsage(usage: unknown): ReportedUsage | undefined {
  const { data } = usageSchema.safeParse(usage);
  if (data === undefined) return undefined;
  const { input_tokens: promptTokens, output_tokens: counted, input_tokens_details: details } = data;
  // As in a chat completion, some count reasoning in the total only.
  const uncounted = Math.max(0, (data.total_tokens ?? 0) - promptTokens - counted);
  const completionTokens = counted + Math.min(uncounted, data.output_tokens_details?.reasoning_tokens ?? 0);
  return { promptTokens, completionTokens, cachedTokens: Math.min(details?.cached_tokens ?? 0, promptTokens) };
}

const noReasoning = { reasoning_tokens: 0 };

/**
 * Usage in OpenAI's shape: as the backend reported it if the tokens are the same, with the properties that OpenAI's description requires.
 * Details of other tokens could be more than those that they are a part of.
 */
export function presentUsage({ promptTokens, completionTokens }: AnswerTokens, reported: unknown): object {
  const own = readUsage(reported);
  const isSame = own?.completionTokens === completionTokens;
  const kept = isObject(reported) && own !== undefined ? reported : {};
  const input = isObject(kept.input_tokens_details) ? kept.input_tokens_details : {};
  const output = isSame && isObject(kept.output_tokens_details) ? kept.output_tokens_details : {};
  const shown = own?.promptTokens || promptTokens;
  return {
    ...kept,
    input_tokens: shown,
    input_tokens_details: withMissing(input, { cached_tokens: 0, cache_write_tokens: 0 }),
    output_tokens: completionTokens,
    output_tokens_details: withMissing(output, noReasoning),
    total_tokens: shown + completionTokens,
  };
}
