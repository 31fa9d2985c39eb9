import { isObject } from '../../is-object.ts';
import type { TypedEvent } from '../answers/convert-events.ts';
import { mapped, withMissing, withText } from '../answers/with-missing.ts';
import type { AnswerContext } from '../definition/answer-format.ts';

type Json = Readonly<Record<string, unknown>>;

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
