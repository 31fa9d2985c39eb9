import { isObject } from '../../is-object.ts';
import { mapped, withMissing } from '../answers/with-missing.ts';
import type { AnswerContext } from '../definition/answer-format.ts';

type Json = Readonly<Record<string, unknown>>;

/**
 * Returns a response with all properties that OpenAI's description requires, and with the client's name of the model. `status` stands for a
 * missing one.
 */
export function completeResponse(
  response: Json,
  { requestId, createdAt, model }: AnswerContext,
  status = 'completed',
): Json {
  const output = Array.isArray(response.output)
    ? mapped(response.output, (item, index) => completeItem(item, index))
    : [];
  const complete = withMissing(response, {
    ...{ id: `resp_${requestId}`, object: 'response', created_at: createdAt, status, model },
    ...{ error: null, incomplete_details: null, instructions: null, metadata: {}, output: [] },
    ...{ parallel_tool_calls: true, temperature: null, tool_choice: 'auto', tools: [], top_p: null },
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

export function completeItem(item: unknown, index = 0, status = 'completed'): unknown {
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
