import { z } from 'zod';
import type { Message } from '../model/text.ts';

const part = z.looseObject({
  type: z.enum(['input_text', 'output_text', 'refusal', 'input_image', 'input_file']),
  text: z.string().optional(),
  refusal: z.string().optional(),
});

const content = z.union([z.string(), z.array(part)]);

const textPart = z.looseObject({ type: z.string(), text: z.string() });

const messageItem = z.looseObject({
  type: z.literal('message').optional(),
  role: z.enum(['user', 'assistant', 'system', 'developer']),
  content,
});

const callItem = z.looseObject({
  type: z.literal('function_call'),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
});

const customItem = z.looseObject({
  type: z.literal('custom_tool_call'),
  call_id: z.string(),
  name: z.string(),
  input: z.string(),
});

const resultItem = z.looseObject({
  type: z.enum(['function_call_output', 'custom_tool_call_output']),
  call_id: z.string(),
  output: content,
});

const reasoningItem = z.looseObject({
  type: z.literal('reasoning'),
  summary: z.array(textPart).optional(),
  content: z.array(textPart).nullish(),
});

const offeredTool = z.looseObject({ type: z.string(), name: z.string().optional() });

/** A tool, or a group of tools. */
const toolOrGroup = offeredTool.extend({ tools: z.array(offeredTool).optional() });

export type OfferedTool = z.infer<typeof offeredTool>;

const toolsItem = z.looseObject({ type: z.literal('additional_tools'), tools: z.array(toolOrGroup) });

const item = z.union([toolsItem, messageItem, callItem, customItem, resultItem, reasoningItem]);

/** What the simulated server requires of a response request. All other fields are recorded, and repeated where the format does that. */
export const responseSchema = z.looseObject({
  model: z.string().min(1),
  input: z.union([z.string(), z.array(item).min(1)]),
  instructions: z.string().nullish(),
  stream: z.boolean().nullish(),
  max_output_tokens: z.int().positive().nullish(),
  tools: z.array(toolOrGroup).nullish(),
  tool_choice: z.unknown().optional(),
});

export type ResponseRequest = z.infer<typeof responseSchema>;

/** The conversation as the model reads it. The result of a tool is a message of the role `tool`. */
export function messagesOfResponse({
  input,
  instructions,
}: Pick<ResponseRequest, 'input' | 'instructions'>): Message[] {
  const system = typeof instructions === 'string' ? [{ role: 'system', content: instructions }] : [];
  const items = typeof input === 'string' ? [{ role: 'user', content: input }] : input.map(messageOf);
  return [...system, ...items];
}

function messageOf(given: z.infer<typeof item>): Message {
  switch (given.type) {
    case 'function_call':
      return { role: 'assistant', content: `${given.name} ${given.arguments}` };
    case 'custom_tool_call':
      return { role: 'assistant', content: `${given.name} ${given.input}` };
    case 'function_call_output':
    case 'custom_tool_call_output':
      return { role: 'tool', content: contentOf(given.output) };
    case 'additional_tools':
      return { role: 'system', content: '' };
    case 'reasoning':
      return { role: 'assistant', content: [...(given.summary ?? []), ...(given.content ?? [])].map(asText) };
    default:
      return { role: given.role, content: contentOf(given.content) };
  }
}

function contentOf(given: z.infer<typeof content>): Message['content'] {
  if (typeof given === 'string') return given;
  return given.map((one) => {
    const text = one.refusal ?? one.text;
    return text === undefined ? { type: one.type } : { type: 'text', text };
  });
}

function asText({ text }: { text: string }) {
  return { type: 'text', text };
}
