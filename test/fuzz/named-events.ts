import fc from 'fast-check';
import { apiKey, bothWays, callOf, model, streamTo } from './backend-answers.ts';
import { inPieces } from './fake-request.ts';
import { type FuzzTarget, require } from './search/fuzz-target.ts';

const endpoints = ['/v1/responses', '/v1/messages'] as const;

const small = fc.constantFrom<unknown>(0, 1, 2, -1, 1e9, '0', null);
const text = fc.string({ unit: 'binary', maxLength: 20 });
const anyValue = fc.jsonValue({ maxDepth: 2 });
const orAny = (right: fc.Arbitrary<unknown>) => fc.oneof({ weight: 8, arbitrary: right }, anyValue);

const parts = fc.record({
  type: fc.constantFrom('output_text', 'refusal', 'summary_text', 'x'),
  text,
  annotations: anyValue,
});
const items = fc.record(
  {
    type: fc.constantFrom('message', 'reasoning', 'function_call', 'custom_tool_call', 'x'),
    id: text,
    status: anyValue,
    content: fc.array(parts, { maxLength: 2 }),
    arguments: text,
    name: text,
  },
  { requiredKeys: ['type'] },
);
const tokens = fc.oneof(fc.integer(), fc.nat(3_000));
const responses = fc.record(
  {
    id: text,
    model: fc.constantFrom(model, 'other', ''),
    status: fc.constantFrom('completed', 'incomplete', 'in_progress', 'x'),
    output: orAny(fc.array(items, { maxLength: 2 })),
    usage: orAny(fc.record({ input_tokens: tokens, output_tokens: tokens, output_tokens_details: anyValue })),
    error: fc.constantFrom(null, { message: `key ${apiKey}` }),
  },
  { requiredKeys: ['model'] },
);
const responseEvents = fc.record(
  {
    type: fc.oneof(
      fc.constantFrom('response.created', 'response.completed', 'response.incomplete', 'response.failed'),
      fc.constantFrom('response.output_item.added', 'response.output_item.done'),
      fc.constantFrom('response.content_part.added', 'response.content_part.done'),
      fc.constantFrom('response.output_text.delta', 'response.output_text.done', 'response.refusal.delta'),
      fc.constantFrom('response.function_call_arguments.delta', 'response.function_call_arguments.done'),
      text,
    ),
    ...{ sequence_number: small, output_index: small, content_index: small, summary_index: small },
    ...{ item_id: text, delta: orAny(text), text: orAny(text), item: orAny(items), part: orAny(parts) },
    response: orAny(responses),
  },
  { requiredKeys: ['type'] },
);
const blocks = fc.record(
  {
    type: fc.constantFrom('text', 'thinking', 'tool_use', 'redacted_thinking', 'x'),
    ...{ text, thinking: text, id: text, name: text, input: anyValue },
  },
  { requiredKeys: ['type'] },
);
const messageUsage = fc.record({ input_tokens: tokens, output_tokens: tokens, cache_read_input_tokens: tokens });
const messageEvents = fc.record(
  {
    type: fc.oneof(
      fc.constantFrom('message_start', 'content_block_start', 'content_block_delta', 'content_block_stop'),
      fc.constantFrom('message_delta', 'message_stop', 'ping', 'error'),
    ),
    index: small,
    message: orAny(
      fc.record({ id: text, model: fc.constantFrom(model, 'other'), content: anyValue, usage: orAny(messageUsage) }),
    ),
    content_block: orAny(blocks),
    delta: orAny(
      fc.record(
        {
          type: fc.constantFrom('text_delta', 'thinking_delta', 'input_json_delta', 'signature_delta', 'x'),
          ...{ text, thinking: text, partial_json: text, stop_reason: fc.constantFrom('end_turn', 'max_tokens', null) },
        },
        { requiredKeys: [] },
      ),
    ),
    usage: orAny(messageUsage),
    error: fc.constantFrom(null, { message: `key ${apiKey}` }),
  },
  { requiredKeys: ['type'] },
);
const events = fc.oneof(
  { weight: 6, arbitrary: fc.oneof(responseEvents, messageEvents).map((event) => `data: ${JSON.stringify(event)}`) },
  fc.constantFrom(
    ': waiting',
    'event: x',
    'data: [DONE]',
    'data: {"error":{"message":"no"}}',
    'data:',
    'data: {}\r\ndata: ',
  ),
);
const streams = fc
  .tuple(fc.array(events, { minLength: 1, maxLength: 12 }), fc.constantFrom('\n\n', '\r\n\r\n', '\r\r'))
  .map(([list, end]) => list.map((one) => one + end).join(''));

/** The stream of a model server at the endpoints with named events. */
export const namedEvents: FuzzTarget = {
  promise:
    'any bytes give a client valid named events or one declared failure, with the same result however they are split',
  words: [
    ...['data: ', '\n\n', '\r\n', '\r', '\n', ': comment\n', 'event: error\n', '\ufeff', '\0', 'data: [DONE]\n\n'],
    ...['"type":"response.created"', '"type":"response.completed"', '"type":"response.output_text.delta"'],
    ...['"type":"response.output_item.added"', '"type":"response.output_item.done"', '"type":"response.failed"'],
    ...['"response":{', '"item":{"type":"message"}', '"delta":"a"', '"output_index":0', '"output_index":-1'],
    ...['"sequence_number":9007199254740991', '"sequence_number":-1', '"content_index":1e9', '"output":[{}]'],
    ...['"type":"message_start"', '"type":"content_block_start"', '"type":"content_block_delta"', '"index":0'],
    ...['"type":"message_delta"', '"type":"message_stop"', '"delta":{"type":"text_delta","text":"a"}'],
    ...['"usage":{"input_tokens":1,"output_tokens":2}', '"usage":null', '"output_tokens":5000', '"type":"a\\nb"'],
    ...[
      apiKey,
      `"message":"key ${apiKey}"`,
      '"error":{"message":"no"}',
      '"error":null',
      '"__proto__":{}',
      '\u2028',
      '🙂',
    ],
    ...['{', '}', '[', ']', ',', '"', '\\n', '\\ud800', 'null', '1e999', '\ud83d'],
  ],
  bytesMax: 16_384,
  structured: streams.map((text) => Buffer.from(text)),
  async check(input) {
    const pieces = inPieces(input);
    const ends = [];
    for (const endpoint of endpoints) {
      const job = callOf(endpoint, true);
      const check = (sent: string) => checkEvents(endpoint, sent);
      ends.push(await bothWays(input, pieces, (parts) => streamTo(job, parts, check)));
    }
    return ends.includes('accepted') ? 'accepted' : ends.join(', ');
  },
};

/** Each event has a name, which is its type, and one line of JSON; models have the client's name. */
function checkEvents(endpoint: string, sent: string): void {
  for (const event of sent.split('\n\n').slice(0, -1)) {
    const [name = '', data = '', ...more] = event.split('\n');
    require(more.length === 0 &&
      name.startsWith('event: ') &&
      data.startsWith('data: '), `it is no named event: ${event}`);
    require(!event.includes('\r'), 'an event contains a line end');
    const value = JSON.parse(data.slice('data: '.length));
    require(name.slice('event: '.length) === value.type.replace(/[\r\n]/g, ' '), 'its name is not its type');
    require(value.type !== 'error' && value.error == null, 'an event is an error');
    const carrier = endpoint === '/v1/responses' ? value.response : value.type === 'message_start' && value.message;
    const named = carrier?.model;
    require(named === undefined || named === model, 'an event names another model');
  }
}
