import { z } from 'zod';
import type { Message } from '../model/text.ts';

const innerBlock = z.looseObject({ type: z.string(), text: z.string().optional() });
const innerContent = z.union([z.string(), z.array(innerBlock)]);

const block = z.union([
  z.looseObject({ type: z.literal('text'), text: z.string() }),
  z.looseObject({ type: z.enum(['image', 'document']), source: z.looseObject({ type: z.string() }) }),
  z.looseObject({
    type: z.literal('tool_use'),
    id: z.string(),
    name: z.string(),
    input: z.record(z.string(), z.unknown()),
  }),
  z.looseObject({ type: z.literal('tool_result'), tool_use_id: z.string(), content: innerContent.nullish() }),
  z.looseObject({ type: z.literal('thinking'), thinking: z.string() }),
  z.looseObject({ type: z.literal('redacted_thinking'), data: z.string() }),
]);

type Block = z.infer<typeof block>;

const message = z.looseObject({
  role: z.enum(['user', 'assistant', 'system']),
  content: z.union([z.string(), z.array(block)]),
});

/** What both endpoints of messages require. All other fields are recorded and ignored. */
export const countedSchema = z.looseObject({
  model: z.string().min(1),
  messages: z.array(message).min(1),
  system: innerContent.nullish(),
  tools: z.array(z.looseObject({ name: z.string(), input_schema: z.looseObject({}).optional() })).nullish(),
  tool_choice: z.looseObject({ type: z.enum(['auto', 'any', 'tool', 'none']) }).nullish(),
});

export const messagesSchema = countedSchema.extend({
  max_tokens: z.int().positive(),
  stream: z.boolean().nullish(),
});

export type MessagesRequest = z.infer<typeof messagesSchema>;
export type CountedRequest = z.infer<typeof countedSchema>;

/** The conversation as the model reads it. The result of a tool is a message of the role `tool`, after the text that is beside it. */
export function messagesOfAnthropic({ system, messages }: Pick<CountedRequest, 'system' | 'messages'>): Message[] {
  const instructions = system === undefined || system === null ? [] : [{ role: 'system', content: system }];
  return [...instructions, ...messages.flatMap(({ role, content }) => readMessage(role, content))];
}

function readMessage(role: string, content: string | readonly Block[]): Message[] {
  if (typeof content === 'string') return [{ role, content }];
  const results = content.flatMap((one) =>
    one.type === 'tool_result' ? [{ role: 'tool', content: one.content }] : [],
  );
  const others = content.filter(({ type }) => type !== 'tool_result');
  return others.length === 0 ? results : [{ role, content: others.map(readBlock) }, ...results];
}

function readBlock(given: Block): { type: string; text?: string } {
  if (given.type === 'text') return { type: 'text', text: given.text };
  if (given.type === 'thinking') return { type: 'text', text: given.thinking };
  if (given.type === 'tool_use') return { type: 'text', text: `${given.name} ${JSON.stringify(given.input)}` };
  return { type: given.type };
}
