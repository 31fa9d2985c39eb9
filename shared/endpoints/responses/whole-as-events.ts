import { isObject } from '../../is-object.ts';
import type { TypedEvent } from '../answers/convert-events.ts';
import { type TextKind, textMembers } from './output-progress.ts';
import type { ResponseAnswer } from './response-answers.ts';

type Json = Readonly<Record<string, unknown>>;

/** The events of a stream that say what a whole response says (OpenAI API reference, streaming events of responses). */
export function responseAsEvents({ answer }: ResponseAnswer): string[] {
  const { output, usage, status: given, ...response } = answer;
  const status = given ?? 'completed';
  const begun = { ...response, status: 'in_progress', output: [] };
  const ended = { ...response, status, output, ...(usage !== undefined && { usage }) };
  const events: TypedEvent[] = [
    { type: 'response.created', response: begun },
    { type: 'response.in_progress', response: begun },
    ...output.flatMap(itemAsEvents),
    { type: `response.${status}`, response: ended },
  ];
  return events.map((event) => JSON.stringify(event));
}

/** An item as it begins, its texts, and its end. An item of another kind comes at once. */
function itemAsEvents(item: Json, output_index: number): TypedEvent[] {
  const place = { item_id: item.id, output_index };
  const lists = { content: listOf(item.content), summary: listOf(item.summary) };
  const parts = [
    ...lists.content.flatMap((part, content_index) => partAsEvents(part, { ...place, content_index })),
    ...lists.summary.flatMap((part, summary_index) => partAsEvents(part, { ...place, summary_index })),
  ];
  const call = callKinds.get(item.type);
  const args = call === undefined ? [] : textAsEvents(call, item, place);
  const emptied = {
    ...(lists.content.length > 0 && { content: [] }),
    ...(lists.summary.length > 0 && { summary: [] }),
    ...(call !== undefined && { [textMembers[call]]: '' }),
  };
  return [
    { type: 'response.output_item.added', output_index, item: { ...item, ...emptied, status: 'in_progress' } },
    ...parts,
    ...args,
    { type: 'response.output_item.done', output_index, item },
  ];
}

const callKinds: ReadonlyMap<unknown, TextKind> = new Map([
  ['function_call', 'response.function_call_arguments'],
  ['custom_tool_call', 'response.custom_tool_call_input'],
]);

const partKinds: ReadonlyMap<unknown, { kind: TextKind; part: string }> = new Map([
  ['output_text', { kind: 'response.output_text', part: 'response.content_part' }],
  ['refusal', { kind: 'response.refusal', part: 'response.content_part' }],
  ['reasoning_text', { kind: 'response.reasoning_text', part: 'response.content_part' }],
  ['summary_text', { kind: 'response.reasoning_summary_text', part: 'response.reasoning_summary_part' }],
]);

function partAsEvents(part: Json, place: Json): TypedEvent[] {
  const known = partKinds.get(part.type);
  if (known === undefined) return [];
  const begun = { ...part, [textMembers[known.kind]]: '' };
  return [
    { type: `${known.part}.added`, ...place, part: begun },
    ...textAsEvents(known.kind, part, place),
    { type: `${known.part}.done`, ...place, part },
  ];
}

function textAsEvents(kind: TextKind, holder: Json, place: Json): TypedEvent[] {
  const member = textMembers[kind];
  const text = typeof holder[member] === 'string' ? holder[member] : '';
  return [
    { type: `${kind}.delta`, ...place, delta: text },
    { type: `${kind}.done`, ...place, [member]: text },
  ];
}

function listOf(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
