type Json = Record<string, unknown>;

/** The events of one item: it is added, its texts come in pieces, and it is done. */
function itemEvents(index: number, item: Json & { id: string }, parts: readonly Part[]): Json[] {
  const output_index = index;
  const place = { item_id: item.id, output_index };
  return [
    { type: 'response.output_item.added', output_index, item: { ...item, status: 'in_progress' } },
    ...parts.flatMap((part, at) => partEvents({ ...place, [part.index ?? 'content_index']: at }, part)),
    { type: 'response.output_item.done', output_index, item: { ...item, ...itemTexts(parts), status: 'completed' } },
  ];
}

type Part = { type: string; member: 'text' | 'refusal'; kind: string; index?: 'summary_index'; pieces: string[] };

function partEvents(place: Json, { type, member, kind, index, pieces }: Part): Json[] {
  const what = index === undefined ? 'content_part' : 'reasoning_summary_part';
  const part = (text: string) => ({
    type,
    [member]: text,
    ...(type === 'output_text' && { annotations: [], logprobs: [] }),
  });
  const logprobs = type === 'output_text' ? { logprobs: [] } : {};
  return [
    { type: `response.${what}.added`, ...place, part: part('') },
    ...pieces.map((delta) => ({ type: `${kind}.delta`, ...place, delta, ...logprobs })),
    { type: `${kind}.done`, ...place, [member]: pieces.join(''), ...logprobs },
    { type: `response.${what}.done`, ...place, part: part(pieces.join('')) },
  ];
}

function itemTexts(parts: readonly Part[]): Json {
  const of = (list: readonly Part[]) => list.map(({ type, member, pieces }) => ({ type, [member]: pieces.join('') }));
  const summary = parts.filter(({ index }) => index !== undefined);
  const content = parts.filter(({ index }) => index === undefined);
  return { ...(summary.length > 0 && { summary: of(summary) }), ...(content.length > 0 && { content: of(content) }) };
}

const summaryPart = (pieces: string[]): Part => ({
  ...{ type: 'summary_text', member: 'text', kind: 'response.reasoning_summary_text', index: 'summary_index', pieces },
});
const textPart = (pieces: string[]): Part => ({
  ...{ type: 'output_text', member: 'text', kind: 'response.output_text', pieces },
});
const refusalPart = (pieces: string[]): Part => ({
  ...{ type: 'refusal', member: 'refusal', kind: 'response.refusal', pieces },
});

const reasoning = itemEvents(0, { id: 'rs_0', type: 'reasoning', summary: [] }, [
  summaryPart(['First', ' thought']),
  summaryPart(['Second', ' thought']),
]);
const message = itemEvents(1, { id: 'msg_1', type: 'message', role: 'assistant', content: [] }, [
  textPart(['One', ' two']),
  textPart(['Three', ' four']),
  refusalPart(['But', ' no']),
]);

const call = { id: 'ctc_2', type: 'custom_tool_call', call_id: 'call_2', name: 'run', input: '' };
const callPlace = { item_id: call.id, output_index: 2 };
const customCall: Json[] = [
  { type: 'response.output_item.added', output_index: 2, item: call },
  { type: 'response.custom_tool_call_input.delta', ...callPlace, delta: 'ls' },
  { type: 'response.custom_tool_call_input.delta', ...callPlace, delta: ' -l' },
  { type: 'response.custom_tool_call_input.done', ...callPlace, input: 'ls -l' },
  { type: 'response.output_item.done', output_index: 2, item: { ...call, input: 'ls -l' } },
];

/** Both in turns, each in its own order. */
function inTurns(some: readonly Json[], others: readonly Json[]): Json[] {
  const length = Math.max(some.length, others.length);
  return Array.from({ length }, (_, at) => [some[at], others[at]])
    .flat()
    .filter((event) => event !== undefined);
}

const head = { id: 'resp_1', object: 'response', created_at: 1_700_000_000, model: 'm', output: [] };

const events: Json[] = [
  { type: 'response.created', response: { ...head, status: 'in_progress' } },
  ...reasoning,
  ...inTurns(message, customCall),
];

const output = events.flatMap(({ type, item }) => (type === 'response.output_item.done' ? [item] : []));

/** The data of a stream with several parts in an item, with a summary of reasoning, a custom call, and items that take turns. */
export const partedStream: readonly string[] = [
  ...events,
  {
    type: 'response.completed',
    response: { ...head, status: 'completed', output, usage: { input_tokens: 3, output_tokens: 20 } },
  },
].map((event, sequence_number) => JSON.stringify({ ...event, sequence_number }));
