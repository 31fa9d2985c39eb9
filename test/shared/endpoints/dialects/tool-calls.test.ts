import test from 'ava';
import { callIdOf, createNumberedCalls } from '../../../../shared/endpoints/chat-stream/number-tool-calls.ts';
import { assembled, type Json, parsed, streamed } from '../../../support/endpoints/dialect.ts';

const chat = '/v1/chat/completions';
const head = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm' };
const chunk = (delta: Json, index = 0, finish_reason: string | null = null) => ({
  ...head,
  choices: [{ index, delta, finish_reason }],
});
const part = (...calls: unknown[]) => chunk({ tool_calls: calls });
const named = (name: unknown, args: unknown) => ({ function: { name, arguments: args } });
const end = [chunk({}, 0, 'tool_calls'), '[DONE]'];

type Call = { id: string; type: string; function: { name: string; arguments: string } };

/** What OpenAI's clients make of the parts of calls: they join them by their number. */
function joined(events: Json[]): Call[] {
  const calls: Call[] = [];
  for (const { choices } of events) {
    for (const { delta } of choices as { delta: { tool_calls?: (Partial<Call> & { index: number })[] } }[]) {
      for (const { index, id, type, function: called } of delta.tool_calls ?? []) {
        const call = calls[index] ?? { id: '', type: '', function: { name: '', arguments: '' } };
        calls[index] = call;
        call.id += id ?? '';
        call.type += type ?? '';
        call.function.name += called?.name ?? '';
        call.function.arguments += called?.arguments ?? '';
      }
    }
  }
  return calls;
}

const callsIn = (answer: Json) => (answer.choices as { message: { tool_calls: Call[] } }[])[0]?.message.tool_calls;
const call = (id: string, name: string, args: string) => ({
  id,
  type: 'function',
  function: { name, arguments: args },
});
const first = call('call_a', 'first', '{"a":1}');
const second = call('call_b', 'second', '{"b":2}');
const made = (number: number) => `call_1_${number}`;

/** Events; the calls that the client gets. */
const streams: Record<string, [Json[], object[]]> = {
  'two calls with their numbers': [
    [part({ index: 0, ...first }), part({ index: 1, ...second })],
    [first, second],
  ],
  'two calls with the same number': [
    [part({ index: 0, ...first }), part({ index: 0, ...second })],
    [first, second],
  ],
  'two calls with the same number in one chunk': [
    [part({ index: 0, ...first }, { index: 0, ...second })],
    [first, second],
  ],
  'two calls without numbers': [
    [part(first), part(second)],
    [first, second],
  ],
  'two calls with null for numbers': [
    [part({ index: null, ...first }), part({ index: null, ...second })],
    [first, second],
  ],
  'two calls whose numbers begin with 1': [
    [part({ index: 1, ...first }), part({ index: 2, ...second })],
    [first, second],
  ],
  'two calls whose numbers are no numbers': [
    [part({ index: -1, ...first }), part({ index: 1e300, ...second })],
    [first, second],
  ],
  'two calls in pieces, with the same number': [
    [
      part({ index: 0, id: 'call_a', type: 'function', ...named('first', '') }),
      part({ index: 0, function: { arguments: '{"a"' } }),
      part({ index: 0, function: { arguments: ':1}' } }),
      part({ index: 0, id: 'call_b', type: 'function', ...named('second', '') }),
      part({ index: 0, function: { arguments: '{"b":2}' } }),
    ],
    [first, second],
  ],
  'two calls in pieces that alternate, with the same number and their ids': [
    [
      part({ index: 0, id: 'call_a', ...named('first', '') }),
      part({ index: 0, id: 'call_b', ...named('second', '') }),
      part({ index: 0, id: 'call_a', function: { arguments: '{"a":1}' } }),
      part({ index: 0, id: 'call_b', function: { arguments: '{"b":2}' } }),
    ],
    [first, second],
  ],
  'two calls with the same id and number': [
    [part({ index: 0, ...first }), part({ index: 0, ...second, id: 'call_a' })],
    [first, { ...second, id: made(1) }],
  ],
  'calls without ids': [
    [part({ index: 0, ...named('first', '{"a":1}') }), part({ index: 1, id: '', ...named('second', '{"b":2}') })],
    [
      { ...first, id: made(0) },
      { ...second, id: made(1) },
    ],
  ],
  'calls without ids and numbers': [
    [part(named('first', '{"a"')), part({ function: { arguments: ':1}' } }), part(named('second', '{"b":2}'))],
    [
      { ...first, id: made(0) },
      { ...second, id: made(1) },
    ],
  ],
  'two calls of one function, without ids and numbers': [
    [part(named('first', '{"a":1}')), part(named('first', '{"a":2}'))],
    [{ ...first, id: made(0) }, call(made(1), 'first', '{"a":2}')],
  ],
  'ids that are null, and types that are null or empty': [
    [
      part({ index: 0, id: null, type: null, ...named('first', '') }),
      part({ index: 0, id: null, type: '', ...named(null, '{"a":1}') }),
    ],
    [{ ...first, id: made(0) }],
  ],
  'an id, a type and a name with every part': [
    [
      part({ index: 0, id: 'call_a', type: 'function', ...named('first', '{"a"') }),
      part({ index: 0, id: 'call_a', type: 'function', ...named('first', ':1}') }),
    ],
    [first],
  ],
  'empty ids, types and names after the first part': [
    [
      part({ index: 0, id: 'call_a', type: 'function', ...named('first', '{"a"') }),
      part({ index: 0, id: '', type: '', ...named('', ':1}') }),
    ],
    [first],
  ],
  'another id with every part': [
    [
      part({ index: 0, id: 'call_a', ...named('first', '{"a"') }),
      part({ index: 0, id: 'call_x', function: { arguments: ':1}' } }),
    ],
    [first],
  ],
  'arguments that are an object': [
    [
      part({ index: 0, ...first, function: { name: 'first', arguments: { a: 1 } } }),
      part({ index: 0, ...second, ...named('second', { b: 2 }) }),
    ],
    [first, second],
  ],
  'arguments that are an object, and then empty': [
    [part({ index: 0, id: 'call_a', ...named('first', { a: 1 }) }), part({ index: 0, function: { arguments: '' } })],
    [first],
  ],
  'arguments that are a list, a number or null': [
    [
      part({ id: 'a', ...named('f', [1]) }),
      part({ id: 'b', ...named('g', 5) }),
      part({ id: 'c', ...named('h', null) }, { function: { arguments: '{}' } }),
    ],
    [call('a', 'f', '[1]'), call('b', 'g', '5'), call('c', 'h', '{}')],
  ],
  'parts that are no objects': [[part(null, 5, [], { index: 0, ...first }, 'x')], [first]],
};

for (const [title, [events, expected]] of Object.entries(streams)) {
  test(`${title}: in a stream and whole, each is one call as published`, (t) => {
    const { events: sent, complete } = streamed(chat, [chunk({ role: 'assistant', content: '' }), ...events, ...end]);
    t.true(complete);
    t.deepEqual(joined(sent), expected as Call[]);
    t.deepEqual(callsIn(assembled(chat, [...events, ...end]).answer), expected as Call[]);
  });
}

test('calls as they are published pass unchanged', (t) => {
  const parts = [
    part({ index: 0, id: 'call_a', type: 'function', ...named('first', '') }),
    part({ index: 0, function: { arguments: '{"a":1}' } }),
    part({ index: 1, id: 'call_b', type: 'function', ...named('second', '{}') }),
    part({ index: 1, id: null, function: { name: null, arguments: '' } }),
  ];
  t.deepEqual(streamed(chat, parts).events as unknown[], parts);
});

test('each choice numbers its own calls, and no id is that of another call of the request', (t) => {
  const parts = [0, 1].map((index) => chunk({ tool_calls: [named('f', '{}')] }, index));
  const { events } = streamed(chat, parts, { choices: 2 });
  const calls = events.flatMap(
    ({ choices }) => (choices as { delta: { tool_calls: Json[] } }[])[0]?.delta.tool_calls ?? [],
  );
  t.deepEqual(
    calls.map(({ index }) => index),
    [0, 0],
  );
  t.is(new Set(calls.map(({ id }) => id)).size, 2);
});

test('a call of a custom tool keeps its type, and its input is a text', (t) => {
  const custom = { index: 0, custom: { name: 'sql', input: { query: 1 } } };
  const { events } = streamed(chat, [part(custom), ...end]);
  const expected = { id: made(0), type: 'custom', custom: { name: 'sql', input: '{"query":1}' } };
  t.like(events[0], { choices: [{ delta: { tool_calls: [{ index: 0, ...expected }] } }] });
  t.deepEqual(callsIn(assembled(chat, [part(custom), ...end]).answer) as unknown[], [expected]);
});

test('the arguments of a legacy function call are a text', (t) => {
  const delta = { function_call: { name: 'f', arguments: { a: 1 } } };
  const expected = { function_call: { name: 'f', arguments: '{"a":1}' } };
  t.like(streamed(chat, [chunk(delta), ...end]).events[0], { choices: [{ delta: expected }] });
  t.like(assembled(chat, [chunk(delta), ...end]).answer, { choices: [{ message: expected }] });
  t.like(parsed(chat, { choices: [{ message: delta }] }).answer, { choices: [{ message: expected }] });
});

test('whole calls get what they lack: an id, a type, and arguments as a text', (t) => {
  const tool_calls = [
    first,
    { id: '', ...named('second', { b: 2 }) },
    { type: null, ...named('third', null) },
    { id: null, ...named('fourth', '') },
  ];
  const { answer } = parsed(chat, {
    choices: [{ message: { content: null, tool_calls }, finish_reason: 'tool_calls' }],
  });
  t.deepEqual(callsIn(answer), [
    first,
    { ...second, id: made(1) },
    call(made(2), 'third', '{}'),
    call(made(3), 'fourth', ''),
  ]);
});

test('text around calls is learned from, and the calls are still published', (t) => {
  const words = ['a', 'b', 'c', 'd'].map((content) => chunk({ content }));
  const calls = [part({ index: 0, ...first }), part({ index: 0, ...second })];
  const { events } = streamed(chat, [...words, ...calls, ...words, part({ index: 0, ...first, id: 'call_c' }), ...end]);
  t.deepEqual(joined(events), [first, second, { ...first, id: 'call_c' }]);
});

test('calls without end are given up, in a stream and whole', (t) => {
  const calls = Array.from({ length: 200 }, (_, index) => part({ index, ...named('f', '{}') }));
  t.is(streamed(chat, calls).failed, 'unreadable');
  t.is(assembled(chat, calls).failed, 'unreadable');
});

test('what is kept of calls is bounded in a stream, too', (t) => {
  const long = 'x'.repeat(1_000_000);
  const endless = [
    (index: number) => ({ index, id: `${index}${long}`, ...named('f', '') }),
    (index: number) => ({ index, id: `call_${index}`, ...named(`${index}${long}`, '') }),
  ];
  for (const callAt of endless)
    t.is(
      streamed(
        chat,
        Array.from({ length: 100 }, (_, index) => part(callAt(index))),
      ).failed,
      'too_large',
    );
  const argumentsOnly = Array.from({ length: 20 }, () => part({ index: 0, id: 'a', ...named('f', long) }));
  t.is(streamed(chat, argumentsOnly).failed, undefined);
});

const message = { id: 'msg_1', type: 'message', role: 'assistant', content: [], usage: { input_tokens: 1 } };

test('messages: a call has an id and an object as its input, which comes as text', (t) => {
  const events = [
    { type: 'message_start', message },
    { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: '', name: 'f', input: null } },
    { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: { a: 1 } } },
    { type: 'content_block_stop', index: 0 },
    { type: 'content_block_start', index: 1, content_block: { type: 'tool_use', name: 'g', input: '{"b":2}' } },
    { type: 'content_block_stop', index: 1 },
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 5 } },
    { type: 'message_stop' },
  ];
  const { events: sent } = streamed('/v1/messages', events);
  t.like(sent[1], { content_block: { type: 'tool_use', id: 'toolu_1_0', name: 'f', input: {} } });
  t.like(sent[2], { delta: { type: 'input_json_delta', partial_json: '{"a":1}' } });
  t.like(sent[4], { content_block: { id: 'toolu_1_1', name: 'g', input: { b: 2 } } });
  const content = [
    { type: 'tool_use', id: 'toolu_1_0', name: 'f', input: { a: 1 } },
    { type: 'tool_use', id: 'toolu_1_1', name: 'g', input: { b: 2 } },
  ];
  t.deepEqual(assembled('/v1/messages', events).answer.content, content);
  const given = [
    { ...content[0], id: null },
    { ...content[1], id: undefined, input: '{"b":2}' },
  ];
  t.deepEqual(parsed('/v1/messages', { ...message, content: given, stop_reason: 'tool_use' }).answer.content, content);
});

test('messages: an input that is nested too deeply is empty, and no fault of ours', (t) => {
  const input = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const content = [{ type: 'tool_use', id: 'a', name: 'f', input }];
  t.deepEqual(parsed('/v1/messages', { ...message, content, stop_reason: 'tool_use' }).answer.content, [
    { type: 'tool_use', id: 'a', name: 'f', input: {} },
  ]);
  const events = [
    { type: 'message_start', message },
    { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 'a', name: 'f', input: {} } },
    { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: `{"a":${input}}` } },
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 5 } },
  ];
  t.like(assembled('/v1/messages', events).answer, { content: [{ input: {} }] });
});

test('responses: a call has an id, and its arguments are a text', (t) => {
  const item = { type: 'function_call', id: 'fc_1', name: 'f', call_id: null, arguments: '' };
  const args = (type: string, fields: Json) => ({
    type: `response.function_call_arguments.${type}`,
    ...{ item_id: 'fc_1', output_index: 0, ...fields },
  });
  const done = { ...item, arguments: { a: 1 } };
  const completed = (output: unknown) => ({
    type: 'response.completed',
    response: { id: 'r', object: 'response', status: 'completed', output },
  });
  const events = [
    { type: 'response.output_item.added', output_index: 0, item },
    args('delta', { delta: { a: 1 } }),
    args('done', { arguments: { a: 1 } }),
    { type: 'response.output_item.done', output_index: 0, item: done },
  ];
  const { events: sent } = streamed('/v1/responses', [...events, completed([done])]);
  const expected = { type: 'function_call', id: 'fc_1', name: 'f', call_id: made(0), arguments: '{"a":1}' };
  t.like(sent[0], { item: { ...expected, arguments: '' } });
  t.like(sent[1], { delta: '{"a":1}' });
  t.like(sent[2], { arguments: '{"a":1}', name: 'f' });
  t.like(sent[3], { item: expected });
  t.like(sent[4], { response: { output: [expected] } });
  for (const output of [[done], []])
    t.like(assembled('/v1/responses', [...events, completed(output)]).answer, { output: [expected] });
  t.like(parsed('/v1/responses', { ...completed([done]).response }).answer, { output: [expected] });
});

test('an id that the service makes has at most 40 characters, which is what providers accept', (t) => {
  const ulid = '01KBN4V4W0R2E9Z6Y5QH3T8MXA';
  t.is(callIdOf({ requestId: `req_${ulid}` }, 0)(2), `call_${ulid}_2`);
  for (const requestId of [`req_${ulid}`, `req_${ulid}-123456`]) t.true(callIdOf({ requestId }, 0)(0).length <= 40);
});

test('of arguments that are too long nothing more is kept, also after an empty part', (t) => {
  let spent = 0;
  const { number } = createNumberedCalls(made, { spend: (size) => (spent += size) });
  number([{ index: 0, id: 'a', function: { name: 'f', arguments: 'x'.repeat(5_000) } }]);
  const before = spent;
  for (const text of ['', 'y'.repeat(1_000)]) number([{ index: 0, function: { arguments: text } }]);
  t.is(spent, before);
});
