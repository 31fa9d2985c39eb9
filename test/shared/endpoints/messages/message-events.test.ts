import test from 'ava';
import fc from 'fast-check';
import { BackendError } from '../../../../shared/endpoints/answers/backend-error.ts';
import { createMessageConverter } from '../../../../shared/endpoints/messages/message-events.ts';
import { backendAnswer } from '../../../support/endpoints/backend-answer.ts';
import { namedEvents, sdkMessage } from '../../../support/endpoints/sdk-streams.ts';
import { streamOptions } from '../../../support/stream-options.ts';

const asked = { model: 'm', max_tokens: 1_000, messages: [{ role: 'user', content: 'think aloud' }] };
const { events: plain, promptTokens, completionTokens } = backendAnswer('/v1/messages', asked);
const tokens = { promptTokens, completionTokens };
const typeOf = (data: string) => String(JSON.parse(data).type);

function converted(events: readonly (string | object)[], model = 'm') {
  const converter = createMessageConverter(streamOptions({ model }));
  const ready = events.map((event) => converter.take(typeof event === 'string' ? event : JSON.stringify(event)));
  return { converter, ready };
}

function whole(events: readonly (string | object)[], used = tokens, model?: string): string {
  const { converter, ready } = converted(events, model);
  return ready.join('') + converter.end(used, { includeUsage: false });
}

test('a stream passes byte for byte except its end, each event with its type as its name', (t) => {
  const events = plain.map((data) => `event: ${typeOf(data)}\ndata: ${data}\n\n`);
  t.is(converted(plain).ready.join(''), events.slice(0, -2).join(''));
  t.deepEqual(namedEvents(whole(plain)), namedEvents(events.join('')));
});

test('nothing is sent before the first token; then everything before it is', (t) => {
  const first = plain.findIndex((data) => typeOf(data) === 'content_block_delta');
  const { ready } = converted(plain);
  t.deepEqual(ready.slice(0, first), Array(first).fill(''));
  t.is(namedEvents(ready[first] ?? '').length, first + 1);
});

test('the model has the name of the client', async (t) => {
  t.is((await sdkMessage(whole(plain, tokens, 'alias'))).message.model, 'alias');
});

test('a message of an older server gets the properties that the SDK needs', async (t) => {
  const [start, ...rest] = plain;
  const bare = { type: 'message_start', message: {} };
  const { message } = await sdkMessage(whole([bare, ...rest.filter((data) => typeOf(data) !== 'message_stop')]));
  t.truthy(start);
  t.like(message, { id: 'msg_req_1', type: 'message', role: 'assistant', model: 'm', stop_reason: 'end_turn' });
  t.deepEqual(
    message.content.map(({ type }) => type),
    ['thinking', 'text'],
  );
});

const start = (usage?: object) => ({ type: 'message_start', message: { usage } });
const block = { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } };
const word = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } };
const end = (usage?: unknown, stop_reason: unknown = 'end_turn') => ({
  type: 'message_delta',
  delta: { stop_reason },
  usage,
});

test('the usage is that of the first and the last event together, with what the cache has', (t) => {
  const cases: [object | undefined, unknown, object | undefined][] = [
    [
      { input_tokens: 3, output_tokens: 1 },
      { output_tokens: 9 },
      { promptTokens: 3, completionTokens: 9, cachedTokens: 0 },
    ],
    [{ input_tokens: 3 }, { output_tokens: 9 }, { promptTokens: 3, completionTokens: 9, cachedTokens: 0 }],
    [undefined, { input_tokens: 4, output_tokens: 9 }, { promptTokens: 4, completionTokens: 9, cachedTokens: 0 }],
    [
      { input_tokens: 3 },
      { input_tokens: null, output_tokens: 9 },
      { promptTokens: 3, completionTokens: 9, cachedTokens: 0 },
    ],
    [
      { input_tokens: 3, cache_read_input_tokens: 50, cache_creation_input_tokens: 7 },
      { output_tokens: 9 },
      { promptTokens: 60, completionTokens: 9, cachedTokens: 50 },
    ],
    [
      { input_tokens: 3, cache_read_input_tokens: 50 },
      { input_tokens: 0, output_tokens: 9, cache_read_input_tokens: 0 },
      { promptTokens: 53, completionTokens: 9, cachedTokens: 50 },
    ],
    [
      { input_tokens: 0, output_tokens: 0 },
      { input_tokens: 3, output_tokens: 9 },
      { promptTokens: 3, completionTokens: 9, cachedTokens: 0 },
    ],
    [{ input_tokens: 3 }, undefined, undefined],
    [{ input_tokens: 3, output_tokens: 1 }, undefined, undefined],
    [{ input_tokens: 3, output_tokens: 1 }, { output_tokens: null }, undefined],
    [undefined, { output_tokens: 9 }, undefined],
    [{ input_tokens: 3 }, { output_tokens: -1 }, undefined],
    [{ input_tokens: 3 }, { output_tokens: 1e12 }, undefined],
    [{ input_tokens: 3 }, 'many', undefined],
  ];
  for (const [first, last, expected] of cases) {
    const { converter } = converted([start(first), block, word, end(last)]);
    t.deepEqual(converter.usage(), expected as ReturnType<typeof converter.usage>, JSON.stringify([first, last]));
  }
});

test('a usage that is missing is replaced, and one above what may be charged is lowered with its details', (t) => {
  const lastUsage = (first: object | undefined, last: unknown) => {
    const [ended] = namedEvents(
      whole([start(first), block, word, end(last)], { promptTokens: 30, completionTokens: 4 }),
    ).slice(-2);
    return ended?.data.usage;
  };
  const counted = { input_tokens: 30, output_tokens: 4, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
  t.deepEqual(lastUsage(undefined, undefined), counted);
  t.deepEqual(lastUsage({ input_tokens: 3 }, undefined), counted);
  const details = { output_tokens_details: { thinking_tokens: 400 }, vendor: 1 };
  t.deepEqual(lastUsage({ input_tokens: 3 }, { output_tokens: 500, ...details }), {
    input_tokens: 3,
    output_tokens: 4,
    vendor: 1,
  });
  t.deepEqual(lastUsage({ input_tokens: 3 }, { output_tokens: 4, ...details }), {
    input_tokens: 3,
    output_tokens: 4,
    ...details,
  });
});

test('text counts wherever it comes: in the message, at the start of a block, or in pieces', (t) => {
  const textIn = (...events: object[]) => converted([start(), ...events]).converter.text().sample;
  const began = (content_block: object) => ({ ...block, content_block });
  const piece = (delta: object) => ({ ...word, delta });
  t.is(
    converted([{ type: 'message_start', message: { content: [{ type: 'text', text: 'Hi' }] } }]).converter.text()
      .sample,
    'Hi',
  );
  t.is(textIn(began({ type: 'text', text: 'Hi' }), word), 'HiHi');
  t.is(textIn(began({ type: 'thinking', thinking: 'Hm', signature: 'no' })), 'Hm');
  t.is(textIn(began({ type: 'tool_use', id: 'no', name: 'no', input: { id: [1, 2] } })), '{"id":[1,2]}');
  t.is(textIn(began({ type: 'tool_use', id: 'no', name: 'no', input: {} })), '');
  t.is(textIn(block, piece({ type: 'input_json_delta', partial_json: '{"a":' })), '{"a":');
  t.is(textIn(block, piece({ type: 'signature_delta', signature: 'no' })), '');
});

test('a message is complete with its stop reason', (t) => {
  const complete = (...events: object[]) => converted(events).converter.complete(() => 1);
  t.false(complete(start(), block, word));
  t.true(complete(start(), block, word, end()));
  t.false(complete(start(), block, word, end({ output_tokens: 1 }, null)), 'only a count of tokens');
  t.false(complete(block, word, end()), 'it has no beginning');
});

const breaks: Record<string, [string | object, BackendError['fault'], string]> = {
  'an error event': [
    { type: 'error', error: { type: 'api_error', message: 'Dead.' } },
    'said',
    'the backend answered an error',
  ],
  'an error without a message': [{ type: 'error' }, 'unreadable', 'an event has no type'],
  'no type': [{ delta: {} }, 'unreadable', 'an event has no type'],
  'half an event': ['{"type":', 'unreadable', 'an event is not JSON'],
  'a start without a message': [{ type: 'message_start' }, 'unreadable', 'an event is no message_start'],
  'a block without an index': [{ ...block, index: undefined }, 'unreadable', 'an event is no content_block_start'],
  'a block that is no object': [{ ...block, content_block: 'x' }, 'unreadable', 'an event is no content_block_start'],
  'a negative index': [{ ...word, index: -1 }, 'unreadable', 'an event is no content_block_delta'],
  'a delta that is a text': [{ ...word, delta: 'Hi' }, 'unreadable', 'an event is no content_block_delta'],
  'an end of no block': [{ type: 'content_block_stop' }, 'unreadable', 'an event is no content_block_stop'],
  'an end without a delta': [{ type: 'message_delta' }, 'unreadable', 'an event is no message_delta'],
};
for (const [title, [event, fault, message]] of Object.entries(breaks)) {
  test(`ends the stream as broken off: ${title}`, (t) => {
    const { converter } = converted([start(), block, word]);
    const error = t.throws(() => converter.take(typeof event === 'string' ? event : JSON.stringify(event)), {
      instanceOf: BackendError,
    });
    t.is(error.fault, fault);
    t.true(error.message.startsWith(message), error.message);
    t.false(converter.complete(() => 1));
  });
}

test('an event of an unknown type passes; [DONE] is dropped', (t) => {
  const { ready } = converted([start(), block, word, '{"type":"a new\\none"}', '[DONE]']);
  t.deepEqual(ready.slice(-2), ['event: a new one\ndata: {"type":"a new\\none"}\n\n', '']);
});

test('each block ends before the next one begins, also if the server ends all of them at the end', async (t) => {
  const [text, more] = ['Hi', ' there'].map((piece) => ({ type: 'text_delta', text: piece }));
  const tool = (index: number, id: string) => [
    { type: 'content_block_start', index, content_block: { type: 'tool_use', id, name: 'weather' } },
    { type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json: '{"city":' } },
    { type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json: '"Bern"}' } },
  ];
  const stop = (index: number) => ({ type: 'content_block_stop', index });
  const words = [block, { ...word, delta: text }, { ...word, delta: more }];
  const late = [...words, ...tool(1, 'a'), ...tool(2, 'b'), stop(0), stop(1), stop(2)];
  const inTime = [...words, stop(0), ...tool(1, 'a'), stop(1), ...tool(2, 'b'), stop(2)];
  const [sent, expected] = [late, inTime].map((events) => whole([start(), ...events, end({}, 'tool_use')]));
  t.deepEqual(namedEvents(sent ?? ''), namedEvents(expected ?? ''));
  const { message, blocks } = await sdkMessage(sent ?? '');
  t.deepEqual(blocks, message.content);
  t.like(message.content, [{ type: 'text', text: 'Hi there' }, { id: 'a', input: { city: 'Bern' } }, { id: 'b' }]);
});

test('a message that ended at a stop sequence says so', (t) => {
  const ended = (stop_sequence: unknown, stop_reason = 'end_turn') => {
    const last = { type: 'message_delta', delta: { stop_reason, stop_sequence }, usage: {} };
    return namedEvents(whole([start(), block, word, last])).at(-2)?.data.delta;
  };
  t.deepEqual(ended('.'), { stop_reason: 'stop_sequence', stop_sequence: '.' });
  t.deepEqual(ended('.', 'max_tokens'), { stop_reason: 'max_tokens', stop_sequence: '.' });
  t.deepEqual(ended(null), { stop_reason: 'end_turn', stop_sequence: null });
  t.like(ended(''), { stop_reason: 'end_turn' });
});

const anyValue = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constant(undefined));
const anyEvent = fc.record({
  type: fc.oneof(fc.constantFrom(...new Set(plain.map(typeOf))), fc.string()),
  index: fc.oneof(fc.nat(3), fc.constantFrom(-1, 1.5, '0', null, 2 ** 40)),
  message: fc.oneof(fc.constant({}), fc.record({ usage: anyValue, content: anyValue, model: anyValue })),
  content_block: fc.oneof(fc.constant(word.delta), anyValue),
  delta: fc.oneof(fc.constant(word.delta), fc.record({ stop_reason: anyValue }), anyValue),
  usage: fc.oneof(anyValue, fc.record({ input_tokens: anyValue, output_tokens: anyValue })),
});

test('nothing is written in [DONE], and what was sent before it is not sent again', (t) => {
  const { converter } = converted([start(), block, word, '[DONE]']);
  t.deepEqual(converter.written(), { text: '', tokens: undefined });
  t.deepEqual(
    namedEvents(converter.cut(1)).map(({ name }) => name),
    ['content_block_stop'],
  );
});

test('any events at all are passed on in their order, or given up; and a stream of them can always be cut', (t) => {
  fc.assert(
    fc.property(fc.array(anyEvent, { maxLength: 12 }), (events) => {
      const converter = createMessageConverter(streamOptions({ model: 'm' }));
      const ready: string[] = [];
      try {
        for (const event of events) ready.push(converter.take(JSON.stringify(event)));
      } catch (error) {
        return t.true(error instanceof BackendError, String(error));
      }
      const before = ready.slice(0, -1).join('') + converter.cut(1);
      const sent = namedEvents(
        before + converter.end({ promptTokens: 1, completionTokens: 2 }, { includeUsage: true }),
      );
      t.like(sent.at(-2)?.data, { delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: 2 } });
      t.deepEqual(sent.at(-1)?.data, { type: 'message_stop' });
    }),
    { numRuns: 500 },
  );
});
