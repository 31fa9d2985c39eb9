import test, { type ExecutionContext } from 'ava';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import type { AnswerAssembler } from '../../../shared/endpoints/definition/answer-format.ts';
import { endpointAt } from '../../../shared/endpoints/endpoints.ts';
import { streamOptions } from '../../support/stream-options.ts';

const one = () => 1;

function open(endpoint: string): AnswerAssembler {
  const assembly = endpointAt(endpoint).answer.stream?.assembly;
  if (assembly === undefined) throw new Error(`answers of ${endpoint} are not assembled`);
  return assembly.create(streamOptions({ model: 'm' }));
}

function assemble(endpoint: string, events: readonly object[]): AnswerAssembler {
  const assembler = open(endpoint);
  for (const event of events) assembler.take(JSON.stringify(event));
  return assembler;
}

type Case = { events: object[]; whole: object; written: string };

/** The assembled answer is the whole one, and it can be read as one. */
function same(t: ExecutionContext, endpoint: string, { events, whole, written }: Case): void {
  const assembler = assemble(endpoint, events);
  t.true(assembler.complete(one));
  const { text, usage } = assembler.answer();
  t.deepEqual(JSON.parse(text), whole);
  const read = endpointAt(endpoint).answer.parse(JSON.stringify(whole));
  t.deepEqual(usage, read.usage);
  t.is(assembler.text().sample, written);
  for (let count = 0; count < events.length - 1; count += 1) {
    const part = assemble(endpoint, events.slice(0, count));
    if (!part.complete(one)) t.notThrows(() => part.text());
  }
  t.false(assemble(endpoint, events.slice(0, 2)).complete(one));
}

const completions = '/v1/completions';
const completion = (choices: object[], more = {}) => ({
  ...{ id: 'cmpl-1', object: 'text_completion', created: 1, model: 'upstream', choices },
  ...more,
});

test('a completion is assembled: texts, log probabilities and ends of every choice, and the usage', (t) => {
  const usage = { prompt_tokens: 2, completion_tokens: 4, total_tokens: 6 };
  const logprobs = (tokens: string[]) => ({
    tokens,
    token_logprobs: tokens.map(() => -1),
    text_offset: tokens.map(() => 0),
  });
  const part = (index: number, text: string, more = {}) => ({
    index,
    text,
    logprobs: null,
    finish_reason: null,
    ...more,
  });
  same(t, completions, {
    written: 'Grübße',
    events: [
      completion([part(0, 'Grü', { logprobs: logprobs(['Grü']) })], { usage: null }),
      completion([part(1, 'b')]),
      completion([part(0, 'ße', { logprobs: logprobs(['ß', 'e']), finish_reason: 'stop', stop_reason: 13 })]),
      completion([part(1, '', { finish_reason: 'length' })]),
      completion([], { usage }),
    ],
    whole: {
      ...completion([], { model: 'm', usage }),
      choices: [
        { index: 0, text: 'Grüße', logprobs: logprobs(['Grü', 'ß', 'e']), finish_reason: 'stop', stop_reason: 13 },
        { index: 1, text: 'b', logprobs: null, finish_reason: 'length' },
      ],
    },
  });
  const cut = assemble(completions, [completion([part(0, 'a')])]);
  cut.cut(2);
  const { choices } = JSON.parse(cut.answer().text) as { choices: unknown };
  t.deepEqual(choices, [
    { index: 0, text: 'a', logprobs: null, finish_reason: 'length' },
    { index: 1, text: '', logprobs: null, finish_reason: 'length' },
  ]);
});

const messages = '/v1/messages';
const head = { id: 'msg_1', type: 'message', role: 'assistant', model: 'upstream' };
const start = {
  type: 'message_start',
  message: {
    ...head,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 5, output_tokens: 1, cache_read_input_tokens: 3 },
  },
};
const block = (index: number, content_block: object) => ({ type: 'content_block_start', index, content_block });
const delta = (index: number, type: string, fields: object) => ({
  type: 'content_block_delta',
  index,
  delta: { type, ...fields },
});
const stop = (index: number) => ({ type: 'content_block_stop', index });
const end = (fields: object, usage: object) => ({
  type: 'message_delta',
  delta: { stop_reason: 'tool_use', stop_sequence: null, ...fields },
  usage,
});

test('a message is assembled: text with citations, thinking with its signature, tool calls, and the usage', (t) => {
  const citation = { type: 'char_location', cited_text: 'x' };
  same(t, messages, {
    written: 'Hm…Grüße{"a":[1]}',
    events: [
      start,
      { type: 'ping' },
      block(0, { type: 'thinking', thinking: '', signature: '' }),
      delta(0, 'thinking_delta', { thinking: 'Hm', estimated_tokens: 64 }),
      delta(0, 'thinking_delta', { thinking: '…' }),
      delta(0, 'signature_delta', { signature: 's' }),
      stop(0),
      block(1, { type: 'text', text: '' }),
      delta(1, 'text_delta', { text: 'Grü' }),
      delta(1, 'citations_delta', { citation }),
      delta(1, 'text_delta', { text: 'ße' }),
      stop(1),
      block(2, { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }),
      delta(2, 'input_json_delta', { partial_json: '{"a":' }),
      delta(2, 'input_json_delta', { partial_json: '[1]}' }),
      stop(2),
      block(3, { type: 'tool_use', id: 'toolu_2', name: 'g', input: {} }),
      delta(3, 'input_json_delta', { partial_json: '' }),
      stop(3),
      end({ container: null }, { output_tokens: 9, input_tokens: null }),
      { type: 'message_stop' },
    ],
    whole: {
      ...{ ...head, model: 'm', stop_reason: 'tool_use', stop_sequence: null, container: null },
      content: [
        { type: 'thinking', thinking: 'Hm…', signature: 's' },
        { type: 'text', text: 'Grüße', citations: [citation] },
        { type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: [1] } },
        { type: 'tool_use', id: 'toolu_2', name: 'g', input: {} },
      ],
      usage: { input_tokens: 5, output_tokens: 9, cache_read_input_tokens: 3 },
    },
  });
});

test('a message that ended within the arguments of a tool, at its own limit or ours, has empty ones', (t) => {
  const call = [
    start,
    block(0, { type: 'tool_use', id: 'a', name: 'f', input: {} }),
    delta(0, 'input_json_delta', { partial_json: '{"a":"lo' }),
  ];
  const cut = assemble(messages, call);
  t.false(cut.complete(one));
  cut.cut(1);
  const limited = end({ stop_reason: 'max_tokens' }, { output_tokens: 20 });
  const ended = assemble(messages, [...call, stop(0), limited, { type: 'message_stop' }]);
  t.true(ended.complete(one));
  t.is(ended.answer().usage?.completionTokens, 20);
  for (const { text } of [cut.answer(), ended.answer()])
    t.like(JSON.parse(text), { stop_reason: 'max_tokens', content: [{ name: 'f', input: {} }] });
});

test('a part of a block that has not begun is a fault of the backend', (t) => {
  t.throws(() => assemble(messages, [start, delta(7, 'text_delta', { text: 'a' })]), { instanceOf: BackendError });
});

test('what the provider read and wrote for a compaction counts as prompt, and the usage stays as it came', (t) => {
  const iterations = [
    { type: 'compaction', input_tokens: 180_000, output_tokens: 3_500, cache_read_input_tokens: 7 },
    { type: 'message', input_tokens: 5, output_tokens: 20 },
    null,
    { type: 'compaction', input_tokens: 'x' },
  ];
  const counts = { output_tokens: 20, iterations };
  const whole = { ...start.message, stop_reason: 'end_turn', usage: { ...start.message.usage, ...counts } };
  const usage = { promptTokens: 8 + 180_007 + 3_500, completionTokens: 20, cachedTokens: 10 };
  const assembled = assemble(messages, [start, block(0, { type: 'text', text: 'Hi' }), end({}, counts)]);
  const parsed = endpointAt(messages).answer.parse(JSON.stringify(whole));
  for (const answer of [assembled.answer(), parsed]) {
    t.deepEqual(answer.usage, usage);
    const presented = endpointAt(messages).answer.present(answer, usage, streamOptions({ model: 'm' }));
    t.like((JSON.parse(presented) as { usage: object }).usage, { input_tokens: 5, output_tokens: 20, iterations });
  }
});

const responses = '/v1/responses';
const output = [
  {
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: 'Hi', annotations: [], logprobs: [] }],
  },
];

test('a response is what its last event has, or its items if that leaves them out', (t) => {
  const usage = {
    input_tokens: 1,
    output_tokens: 1,
    total_tokens: 2,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
  };
  const base = {
    id: 'resp_1',
    object: 'response',
    created_at: 1,
    model: 'upstream',
    status: 'in_progress',
    output: [],
  };
  const events = (final: object) => [
    { type: 'response.created', sequence_number: 0, response: base },
    { type: 'response.output_item.added', output_index: 0, item: { ...output[0], status: 'in_progress', content: [] } },
    { type: 'response.output_text.delta', item_id: 'msg_1', output_index: 0, content_index: 0, delta: 'Hi' },
    { type: 'response.output_item.done', output_index: 0, item: output[0] },
    { type: 'response.completed', response: { ...base, status: 'completed', usage, ...final } },
  ];
  for (const final of [{ output }, {}]) {
    const assembler = assemble(responses, events(final));
    t.true(assembler.complete(one));
    t.is(assembler.text().sample, 'Hi');
    t.like(JSON.parse(assembler.answer().text), { id: 'resp_1', model: 'm', status: 'completed', output, usage });
    t.is(assembler.answer().usage?.completionTokens, 1);
  }
  const annotation = { type: 'url_citation', url: 'https://a.example', start_index: 0, end_index: 2, title: 't' };
  const [created = {}, added = {}, text = {}, , completed = {}] = events({});
  const place = { item_id: 'msg_1', output_index: 0, content_index: 0, annotation_index: 0 };
  const annotated = { type: 'response.output_text.annotation.added', ...place, annotation };
  const short = assemble(responses, [created, added, text, annotated, completed]);
  const content = [{ ...output[0]?.content[0], annotations: [annotation] }];
  t.deepEqual((JSON.parse(short.answer().text) as { output: unknown }).output, [{ ...output[0], content }]);
  const cut = assemble(responses, events({}).slice(0, 3));
  cut.cut(1);
  t.like(JSON.parse(cut.answer().text), { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
});

/** How many items of lists are copied or visited meanwhile. */
function itemsVisited(act: () => void): number {
  const { [Symbol.iterator]: iterate } = Array.prototype;
  let visited = 0;
  function counting(this: unknown[]) {
    visited += this.length;
    return iterate.call(this);
  }
  Object.assign(Array.prototype, { [Symbol.iterator]: counting });
  try {
    act();
  } finally {
    Object.assign(Array.prototype, { [Symbol.iterator]: iterate });
  }
  return visited;
}

test.serial('the work for a list that grows with each event grows with its length, and not with its square', (t) => {
  const parts = 2_000;
  const times = (event: (index: number) => object) => Array.from({ length: parts }, (_, index) => event(index));
  const cited = times(() => delta(0, 'citations_delta', { citation: {} }));
  const added = {
    type: 'response.output_item.added',
    output_index: 0,
    item: { type: 'message', id: 'a', content: [] },
  };
  const texts = times((content_index) => ({
    ...{ type: 'response.output_text.delta', output_index: 0, content_index, delta: 'x' },
  }));
  const all: [string, object[]][] = [
    [messages, [start, block(0, { type: 'text', text: '' }), ...cited, end({}, { output_tokens: 1 })]],
    [responses, [added, ...texts, { type: 'response.completed', response: {} }]],
  ];
  for (const [endpoint, events] of all) {
    const assembler = open(endpoint);
    const visited = itemsVisited(() => {
      for (const event of events) assembler.take(JSON.stringify(event));
      t.true(assembler.answer().text.length > parts);
    });
    t.true(visited < 100 * parts, `${visited} items of ${endpoint}`);
  }
});

test('an assembled answer is bounded, however its parts arrive', (t) => {
  const text = 'x'.repeat(1_000_000);
  const many: [string, object[], object][] = [
    [completions, [], completion([{ index: 0, text }])],
    [messages, [start, block(0, { type: 'text', text: '' })], delta(0, 'text_delta', { text })],
    [
      messages,
      [start, block(0, { type: 'tool_use', id: 'a', name: 'f', input: {} })],
      delta(0, 'input_json_delta', { partial_json: text }),
    ],
    [messages, [start], block(0, { type: 'text', text })],
    [messages, [start], end({ text }, {})],
    [messages, [start], end({}, { [text]: 1 })],
    [messages, [], { ...start, message: { ...head, content: [{ type: 'text', text }] } }],
  ];
  for (const [endpoint, begin, part] of many) {
    const assembler = assemble(endpoint, begin);
    t.throws(
      () => {
        for (let count = 0; count < 40; count += 1) assembler.take(JSON.stringify(part));
      },
      { instanceOf: BackendError, message: /larger than/ },
    );
  }
});

test('a whole answer is requested as a stream, unless a field may mean something else in one', (t) => {
  const user = [{ role: 'user', content: 'Hi' }];
  const asked: [path: string, request: object, apart: object][] = [
    [completions, { prompt: 'Hi', n: 2, suffix: '', echo: false, best_of: null, top_k: 5 }, { echo: true }],
    [completions, { prompt: ['Hi', 'Ho'], stop: ['a'] }, { best_of: 2 }],
    [messages, { messages: user, max_tokens: 5, thinking: { type: 'adaptive' }, top_k: 5 }, { vendor: 1 }],
    [responses, { input: 'Hi', client_metadata: { a: 'b' }, reasoning: {}, top_k: 5 }, { vendor: 1 }],
  ];
  for (const [path, request, apart] of asked) {
    const isAssembled = (more: object) => endpointAt(path).request.ask({ model: 'm', ...request, ...more }).assembled;
    t.true(isAssembled({}), path);
    t.true(isAssembled({ stream: false }), path);
    t.false(isAssembled({ stream: true }), path);
    t.false(isAssembled(apart), path);
  }
});
