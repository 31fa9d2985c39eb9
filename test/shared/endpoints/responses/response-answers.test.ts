import test from 'ava';
import { BackendError } from '../../../../shared/endpoints/answers/backend-error.ts';
import {
  cutResponse,
  parseResponse,
  presentResponse,
  responseText,
} from '../../../../shared/endpoints/responses/response-answers.ts';
import { createResponseConverter } from '../../../../shared/endpoints/responses/response-events.ts';
import { backendAnswer } from '../../../support/endpoints/backend-answer.ts';
import { partedStream } from '../../../support/endpoints/parted-stream.ts';
import { namedEvents, sdkResponse } from '../../../support/endpoints/sdk-streams.ts';
import { streamOptions } from '../../../support/stream-options.ts';

const context = { model: 'm', requestId: 'req_1', createdAt: 1_700_000_000 };
const { whole, promptTokens, completionTokens } = backendAnswer('/v1/responses', { model: 'm', input: 'think aloud' });
const tokens = { promptTokens, completionTokens };
const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
const presented = (answer: unknown, used = tokens, model = 'm') =>
  JSON.parse(presentResponse(parseResponse(textOf(answer)), used, { ...context, model }));

test('a whole response passes byte for byte', (t) => {
  t.is(presentResponse(parseResponse(whole), tokens, context), whole);
});

test('another name of the model is replaced, and nothing else', (t) => {
  t.deepEqual(presented(whole, tokens, 'alias'), { ...JSON.parse(whole), model: 'alias' });
});

test('the usage is what the backend reported, with the tokens of its cache', (t) => {
  const usage = { input_tokens: 10, output_tokens: 5, input_tokens_details: { cached_tokens: 4 } };
  t.deepEqual(parseResponse(textOf({ output: [], usage })).usage, {
    ...{ promptTokens: 10, completionTokens: 5, cachedTokens: 4 },
  });
  const more = { ...usage, input_tokens_details: { cached_tokens: 400 } };
  t.is(parseResponse(textOf({ output: [], usage: more })).usage?.cachedTokens, 10, 'no more than the prompt');
  t.is(parseResponse(textOf({ output: [], usage: { ...usage, input_tokens_details: 5 } })).usage?.cachedTokens, 0);
});

test('a usage that is missing, partial or wrong is replaced by what is charged', (t) => {
  const used = { promptTokens: 30, completionTokens: 7 };
  for (const usage of [undefined, null, {}, { input_tokens: 3 }, { input_tokens: '3', output_tokens: 1 }]) {
    t.is(parseResponse(textOf({ output: [], usage })).usage, undefined);
    t.deepEqual(presented({ output: [], usage }, used).usage, {
      ...{ input_tokens: 30, output_tokens: 7, total_tokens: 37 },
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    });
  }
});

test('required properties that a server leaves out are added', (t) => {
  const output = [
    { type: 'message', content: [{ type: 'output_text', text: 'Hi' }] },
    { type: 'reasoning', id: 'rs_1' },
    { type: 'function_call', call_id: 'c', name: 'f' },
    { type: 'a_new_type' },
  ];
  t.like(presented({ output }), {
    ...{ id: 'resp_req_1', object: 'response', created_at: 1_700_000_000, status: 'completed', model: 'm' },
    ...{ error: null, incomplete_details: null, instructions: null, metadata: {}, tools: [], tool_choice: 'auto' },
    ...{ parallel_tool_calls: true, temperature: null, top_p: null },
    output: [
      {
        ...{ id: 'item_0', role: 'assistant', status: 'completed' },
        content: [{ type: 'output_text', text: 'Hi', annotations: [], logprobs: [] }],
      },
      { id: 'rs_1', summary: [] },
      { id: 'item_2', arguments: '', status: 'completed' },
      { id: 'item_3', type: 'a_new_type' },
    ],
  });
});

const unreadable: Record<string, unknown> = {
  'no JSON': '{"output"',
  'no object': [],
  'no output': {},
  'an output that is no list': { output: {} },
  'an item that is no object': { output: ['x'] },
  'a response that is not over': { output: [], status: 'in_progress' },
  'a failed response': { output: [], status: 'failed', error: { message: 'Dead.' } },
  'an error beside its output': { output: [], error: { message: 'Dead.' } },
  'a model that is no text': { output: [], model: 5 },
};
for (const [title, answer] of Object.entries(unreadable)) {
  test(`not taken for an answer: ${title}`, (t) => {
    const error = t.throws(() => parseResponse(textOf(answer)), { instanceOf: BackendError });
    t.is(error.fault, /error|failed/.test(title) ? 'said' : 'unreadable');
  });
}

test('cut to any share, the answer keeps its beginning: the reasoning, the text, then the calls', (t) => {
  const given = parseResponse(whole);
  const all = responseText(given);
  for (let share = 0; share < 1; share += 0.05) {
    const cut = cutResponse(given, share);
    const left = responseText(cut);
    t.true(all.startsWith(left), left);
    const most = Math.floor(all.length * share);
    t.true(left.length <= most && left.length >= most - 2, `${left.length} of ${most}`);
    t.is(cut.text, JSON.stringify(cut.answer));
    t.like(JSON.parse(cut.text), { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
    t.notThrows(() => parseResponse(cut.text));
  }
});

test('names, ids and signatures are not cut, and do not count as text', (t) => {
  const output = [
    { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'f', arguments: '{"a":1}', status: 'completed' },
  ];
  const cut = cutResponse(parseResponse(textOf({ output })), 0.5).answer.output[0];
  t.like(cut, { id: 'fc_1', call_id: 'call_1', type: 'function_call' });
});

test('what the model wrote counts once: without probabilities, sources, and what tools have written', (t) => {
  const logprobs = ['Hello', ' you'].map((token) => ({ token, top_logprobs: [{ token }] }));
  const annotations = [{ type: 'url_citation', title: 'no', url: 'https://no.example' }];
  const output = [
    { type: 'reasoning', summary: [{ type: 'summary_text', text: 'a' }], encrypted_content: 'no' },
    { type: 'message', content: [{ type: 'output_text', text: 'Hello you', logprobs, annotations }] },
    { type: 'message', content: [{ type: 'refusal', refusal: 'b' }] },
    { type: 'function_call', call_id: 'no', name: 'no', arguments: '{"c":1}' },
    { type: 'custom_tool_call', call_id: 'no', name: 'no', input: 'd' },
    { type: 'mcp_call', name: 'no', arguments: 'e', output: 'no' },
    { type: 'mcp_list_tools', tools: [{ name: 'no', description: 'no' }] },
    { type: 'file_search_call', queries: ['f'], results: [{ text: 'no' }] },
  ];
  t.is(responseText(parseResponse(textOf({ output }))), 'aHello youb{"c":1}def');
  const [, message] = cutResponse(parseResponse(textOf({ output })), 0.2).answer.output;
  t.like(message, { content: [{ text: 'Hel', logprobs: [] }] });
});

const tools = [
  { type: 'function', name: 'weather' },
  { type: 'function', name: 'time' },
];
const asked = (input: string, more: object = {}) => ({ model: 'm', stream: true, input, ...more });
const streams: Record<string, readonly string[]> = {
  text: backendAnswer('/v1/responses', asked('Grüße 👩‍👩‍👧‍👦')).events,
  'reasoning and text': backendAnswer('/v1/responses', asked('think aloud')).events,
  'a refusal after reasoning': backendAnswer('/v1/responses', asked('think aloud and refuse to answer')).events,
  'two function calls': backendAnswer('/v1/responses', asked('call weather and call time', { tools })).events,
  'several parts of an item, a summary, a custom call and items that take turns': partedStream,
};

/** The texts that these events have brought so far, by their place. */
function textsIn(sent: string): string[] {
  const texts = new Map<string, string>();
  for (const { name, data } of namedEvents(sent)) {
    if (!name.endsWith('.delta')) continue;
    const place = `${data.output_index} ${name} ${data.content_index ?? data.summary_index}`;
    texts.set(place, `${texts.get(place) ?? ''}${data.delta}`);
  }
  return [...texts.values()].sort();
}

type Part = { text?: string; refusal?: string };
type Item = { content?: Part[]; summary?: Part[]; arguments?: string; input?: string };

/** The texts of a response that are not empty. */
function textsOf(output: readonly Item[]): string[] {
  const parts = output.flatMap(({ content = [], summary = [] }) => [...content, ...summary]);
  const texts = [...parts.flatMap(({ text, refusal }) => [text, refusal])];
  const calls = output.flatMap((item) => [item.arguments, item.input]);
  return [...texts, ...calls].filter((text) => text !== undefined && text !== '').sort() as string[];
}

for (const [title, events] of Object.entries(streams)) {
  test(`${title}, cut at its limit at any event: the SDK takes what was delivered as an incomplete response`, async (t) => {
    for (const at of events.keys()) {
      const converter = createResponseConverter(streamOptions({ model: 'alias' }));
      const ready = events.slice(0, at + 1).map((data) => converter.take(data));
      // What comes with the event that exceeds the limit is not delivered. Without a token before it, nothing was.
      const before = ready.slice(0, -1).join('') + converter.cut(1);
      const all = before + converter.end({ promptTokens: 7, completionTokens: at }, { includeUsage: true });
      const about = `cut at event ${at}, ${JSON.parse(events[at] ?? '').type}`;
      const sent = namedEvents(all);
      const last = sent.at(-1);
      t.is(last?.name, 'response.incomplete', about);
      t.deepEqual(
        sent.map(({ data }) => data.type),
        sent.map(({ name }) => name),
        about,
      );
      t.deepEqual(
        sent.map(({ data }) => data.sequence_number),
        [...sent.keys()],
        about,
      );
      t.like(last?.data.response, {
        ...{ model: 'alias', status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
        usage: { input_tokens: 7, output_tokens: at, total_tokens: 7 + at },
      });
      if (at === 0) continue; // no SDK takes a stream that has nothing but its end
      const { response } = await sdkResponse(all);
      t.is(response.status, 'incomplete', about);
      t.deepEqual(textsOf(response.output as Item[]), textsIn(before), about);
      assertEachIsEnded(all, about);
    }

    function assertEachIsEnded(sent: string, about: string): void {
      const names = namedEvents(sent).map(({ name }) => name);
      const count = (name: string) => names.filter((each) => each === name).length;
      for (const what of ['output_item', 'content_part', 'reasoning_summary_part']) {
        t.is(count(`response.${what}.done`), count(`response.${what}.added`), `${about}: ${what}`);
      }
    }
  });
}
