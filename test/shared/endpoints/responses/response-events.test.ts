import test from 'ava';
import { BackendError, promptTooLong } from '../../../../shared/endpoints/answers/backend-error.ts';
import { createResponseConverter } from '../../../../shared/endpoints/responses/response-events.ts';
import { createResponseEnding } from '../../../../shared/endpoints/responses/responses.ts';
import { ApiError } from '../../../../shared/errors.ts';
import { backendAnswer } from '../../../support/endpoints/backend-answer.ts';
import { partedStream } from '../../../support/endpoints/parted-stream.ts';
import { type NamedEvent, namedEvents, sdkResponse } from '../../../support/endpoints/sdk-streams.ts';
import { streamOptions } from '../../../support/stream-options.ts';

type Json = Record<string, unknown>;

const {
  events: plain,
  promptTokens,
  completionTokens,
} = backendAnswer('/v1/responses', { model: 'm', input: 'Grüße' });
const typeOf = (data: string) => String(JSON.parse(data).type);
const isToken = (data: string) => typeOf(data).endsWith('.delta');

function converted(events: readonly (string | Json)[], model = 'm') {
  const converter = createResponseConverter(streamOptions({ model }));
  const ready = events.map((event) => converter.take(typeof event === 'string' ? event : JSON.stringify(event)));
  return { converter, ready };
}

const tokens = { promptTokens, completionTokens };
const whole = (events: readonly (string | Json)[], model?: string) => {
  const { converter, ready } = converted(events, model);
  return ready.join('') + converter.end(tokens, { includeUsage: true });
};

test('a stream passes byte for byte except its end, each event with its type as its name', (t) => {
  const { converter, ready } = converted(plain);
  const events = plain.map((data) => `event: ${typeOf(data)}\ndata: ${data}\n\n`);
  t.is(ready.join(''), events.slice(0, -1).join(''));
  const end = converter.end(tokens, { includeUsage: true });
  t.deepEqual(namedEvents(end), namedEvents(events.at(-1) ?? ''));
});

test('nothing is sent before the first token; then everything before it is', (t) => {
  const first = plain.findIndex(isToken);
  const { ready } = converted(plain);
  t.deepEqual(ready.slice(0, first), Array(first).fill(''));
  t.is(namedEvents(ready[first] ?? '').length, first + 1);
});

test('an answer without any token begins with its end', (t) => {
  const { converter, ready } = converted([plain[0] ?? '', plain.at(-1) ?? '']);
  t.true(converter.begun());
  t.true(converter.complete(() => 1));
  t.is(namedEvents(ready.join('')).length, 1);
});

test('the model has the name of the client in every event that names it', (t) => {
  const named = namedEvents(whole(plain, 'alias')).flatMap(({ data }) => data.response ?? []) as Json[];
  t.is(named.length, 3);
  for (const response of named) t.is(response.model, 'alias');
});

test('the converter reports the text, the tokens and the usage of the last event', (t) => {
  const { converter } = converted(plain);
  const { text } = plain.map((data) => JSON.parse(data)).find(({ type }) => type === 'response.output_text.done');
  t.deepEqual(converter.text(), { sample: text, characters: text.length });
  t.deepEqual(converter.usage(), { promptTokens, completionTokens, cachedTokens: 0 });
  t.is(converter.written().tokens, completionTokens);
});

const usageIn = (event: NamedEvent | undefined) => (event?.data.response as Json | undefined)?.usage;

/** The last event of the stream with another usage. */
function ending(usage: unknown): string {
  const last = JSON.parse(plain.at(-1) ?? '');
  return JSON.stringify({ ...last, response: { ...last.response, usage } });
}

const unreadable = { 'no usage': undefined, null: null, 'a text': 'many', 'half of it': { input_tokens: 3 } };
for (const [title, usage] of Object.entries({
  ...unreadable,
  'a negative count': { input_tokens: 3, output_tokens: -1 },
  'a huge count': { input_tokens: 3, output_tokens: 1e12 },
  'a fraction': { input_tokens: 1.5, output_tokens: 1 },
})) {
  test(`a usage that cannot be read counts as none, and is replaced by what is charged: ${title}`, (t) => {
    const { converter } = converted([...plain.slice(0, -1), ending(usage)]);
    t.is(converter.usage(), undefined);
    const [last] = namedEvents(converter.end({ promptTokens: 30, completionTokens: 4 }, { includeUsage: true }));
    t.deepEqual(usageIn(last), {
      ...{ input_tokens: 30, output_tokens: 4, total_tokens: 34 },
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    });
  });
}

test('a usage above what may be charged is lowered, without details that would exceed it', (t) => {
  const reported = {
    ...{ input_tokens: 3, output_tokens: 500, total_tokens: 503, vendor: 1 },
    input_tokens_details: { cached_tokens: 2 },
    output_tokens_details: { reasoning_tokens: 400 },
  };
  const { converter } = converted([...plain.slice(0, -1), ending(reported)]);
  t.deepEqual(converter.usage(), { promptTokens: 3, completionTokens: 500, cachedTokens: 2 });
  const [last] = namedEvents(converter.end({ promptTokens: 3, completionTokens: 100 }, { includeUsage: true }));
  t.deepEqual(usageIn(last), {
    ...{ input_tokens: 3, output_tokens: 100, total_tokens: 103, vendor: 1 },
    input_tokens_details: { cached_tokens: 2, cache_write_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
  });
});

test('properties that OpenAI requires are added to events, items and parts of an older server', async (t) => {
  const without = new Set(['logprobs', 'annotations', 'sequence_number', 'status', 'created_at', 'object', 'tools']);
  const lacking = partedStream.map((data) =>
    JSON.parse(data, (name, value) => (without.has(name) ? undefined : value)),
  );
  const { events, response } = await sdkResponse(whole(lacking));
  t.deepEqual(
    events.map((event) => event.sequence_number),
    [...events.keys()],
  );
  for (const event of events) {
    if (event.type === 'response.output_text.delta') t.deepEqual(event.logprobs, []);
    if (event.type === 'response.created') t.is(event.response.status, 'in_progress');
    const item = event.type.startsWith('response.output_item.') && 'item' in event ? event.item : undefined;
    const status = event.type.endsWith('.added') ? 'in_progress' : 'completed';
    if (item?.type === 'message') t.is(item.status, status);
    if (event.type === 'response.content_part.added' && event.part.type === 'output_text')
      t.like(event.part, { annotations: [], logprobs: [] });
  }
  t.like(response, {
    object: 'response',
    created_at: 1_700_000_000,
    tools: [],
    parallel_tool_calls: true,
    error: null,
  });
});

test('the end of a function call names its function, also if an older server does not', (t) => {
  const tools = [{ type: 'function', name: 'weather' }];
  const { events } = backendAnswer('/v1/responses', { model: 'm', input: 'call weather', tools });
  const nameless = events.map((data) => {
    const event = JSON.parse(data);
    return event.type.endsWith('arguments.done') ? { ...event, name: undefined } : event;
  });
  t.deepEqual(namedEvents(whole(nameless)), namedEvents(whole(events)));
});

/** The stream without these members of its events. */
const without = (events: readonly (string | Json)[], ...names: string[]) =>
  events.map((event) => {
    const all: Json = typeof event === 'string' ? JSON.parse(event) : event;
    return Object.fromEntries(Object.entries(all).filter(([name]) => !names.includes(name)));
  });
const places = ['output_index', 'content_index', 'summary_index'];

test('items and parts are numbered by the ids of items, also of items that take turns', async (t) => {
  const lacking = without(partedStream, ...places);
  t.deepEqual(namedEvents(whole(lacking)), namedEvents(whole(partedStream)));
  const { response } = await sdkResponse(whole(lacking));
  t.deepEqual(
    response.output.map(({ id }) => id),
    ['rs_0', 'msg_1', 'ctc_2'],
  );
  for (const none of [null, 'one', -1, 0.5, 1e15]) {
    const wrong = partedStream.map((data) => JSON.parse(data, (name, value) => (places.includes(name) ? none : value)));
    t.deepEqual(namedEvents(whole(wrong)), namedEvents(whole(partedStream)), String(none));
  }
});

test('items and parts are numbered by their order where events name no item', (t) => {
  const inOrder = partedStream.filter((data) => !/"(?:item_id|id)":"ctc_2"|custom_tool_call_input/.test(data));
  const lacking = without(inOrder, ...places, 'item_id');
  t.deepEqual(namedEvents(whole(lacking)), namedEvents(whole(inOrder)));
});

test('the output of the last event is in the order of the numbers', (t) => {
  const [last, ...rest] = partedStream.map((data) => JSON.parse(data)).reverse();
  const reversed = { ...last, response: { ...last.response, output: last.response.output.toReversed() } };
  const events = [...rest.reverse(), reversed];
  t.deepEqual(namedEvents(whole(without(events, ...places))), namedEvents(whole(partedStream)));
});

test('items that are not known before their end are numbered in its order', (t) => {
  const done = (id: string) => ({ type: 'response.output_item.done', item: { id, type: 'message', content: ['a'] } });
  const { ready } = converted([{ type: 'response.created', response: { id: 'r' } }, done('x'), done('y'), done('z')]);
  const numbers = namedEvents(ready.join('')).map(({ data }) => data.output_index);
  t.deepEqual(numbers, [undefined, 0, 1, 2]);
});

const numbered = (...numbers: unknown[]) =>
  [plain[0] ?? '', ...numbers.map(() => plain.find(isToken) ?? '')].map((data, at) => {
    const { sequence_number: _, ...event } = JSON.parse(data);
    const number = at === 0 ? 0 : numbers[at - 1];
    return number === undefined ? event : { ...event, sequence_number: number };
  });

test('sequence numbers only grow, whatever a server sends', (t) => {
  const cases: [unknown[], number[]][] = [
    [
      [1, 2, 3],
      [0, 1, 2, 3],
    ],
    [
      [5, 6, 7],
      [0, 5, 6, 7],
    ],
    [
      [5, 2, 3],
      [0, 5, 6, 7],
    ],
    [
      [1, 1, 1],
      [0, 1, 2, 3],
    ],
    [
      [undefined, undefined, 9],
      [0, 1, 2, 9],
    ],
    [
      [-1, 1.5, '7'],
      [0, 1, 2, 3],
    ],
    [
      [null, {}, Number.MAX_VALUE],
      [0, 1, 2, 3],
    ],
  ];
  for (const [given, expected] of cases) {
    const sent = namedEvents(converted(numbered(...given)).ready.join(''));
    t.deepEqual(
      sent.map(({ data }) => data.sequence_number),
      expected,
      JSON.stringify(given),
    );
  }
});

const failed = (error: unknown) => ({ type: 'response.failed', response: { status: 'failed', error } });
const breaks: Record<string, [Json | string, BackendError['fault'], string]> = {
  'an error event': [{ type: 'error', message: 'The engine is dead.' }, 'said', 'the backend answered an error'],
  'an error in it': [{ type: 'response.x', error: { message: 'Dead.' } }, 'said', 'the backend answered an error'],
  'a failed response': [failed({ code: 'server_error', message: 'Dead.' }), 'said', 'the backend answered an error'],
  'an error in a response that has not failed': [
    { type: 'response.in_progress', response: { error: { message: 'Dead.' } } },
    'said',
    'the backend answered an error',
  ],
  'a failed response that does not say why': [failed(null), 'interrupted', 'the response has failed'],
  'an error without a message': [{ type: 'error' }, 'unreadable', 'an event has no type'],
  'no type': [{ delta: 'x' }, 'unreadable', 'an event has no type'],
  'a type that is a number': [{ type: 5 }, 'unreadable', 'an event has no type'],
  'a list': ['[]', 'unreadable', 'an event has no type'],
  'a number': ['5', 'unreadable', 'an event has no type'],
  'half an event': ['{"type":"respo', 'unreadable', 'an event is not JSON'],
  'an end without its response': [{ type: 'response.completed' }, 'unreadable', 'an event is no response.completed'],
  'an event that is nested too deeply': [
    `{"type":"x","a":${'['.repeat(200)}${']'.repeat(200)}}`,
    'unreadable',
    'an event is nested',
  ],
};
for (const [title, [event, fault, message]] of Object.entries(breaks)) {
  test(`ends the stream as broken off: ${title}`, (t) => {
    const { converter } = converted(plain.slice(0, 6));
    const error = t.throws(() => converter.take(typeof event === 'string' ? event : JSON.stringify(event)), {
      instanceOf: BackendError,
    });
    t.is(error.fault, fault);
    t.true(error.message.startsWith(message), error.message);
    t.false(converter.complete(() => 1));
  });
}

test('an event of an unknown type passes, and [DONE] is dropped', (t) => {
  const unknown = JSON.stringify({ type: 'response.new\nevent: x', sequence_number: 99 });
  const { ready } = converted([...plain.slice(0, 6), unknown, '[DONE]']);
  t.is(ready.at(-2), `event: response.new event: x\ndata: ${unknown}\n\n`);
  t.is(ready.at(-1), '');
});

test('a broken stream ends with one error event, which continues the numbers and which the SDK throws', async (t) => {
  const ending = createResponseEnding();
  const sent = converted(plain.slice(0, 8)).ready.join('');
  ending.follow?.(sent);
  const last = ending.broken(new ApiError('UPSTREAM_INTERRUPTED', 'It broke off.'), 'req_1');
  t.is(namedEvents(last)[0]?.data.sequence_number, 8);
  t.is(ending.complete(), '');
  const error = await t.throwsAsync(sdkResponse(sent + last));
  t.like(error, { code: 'UPSTREAM_INTERRUPTED', type: 'server_error', param: null, message: 'It broke off.' });
});

test('a stream whose prompt is too long ends with the event on which Codex compacts its history', (t) => {
  const broken = createResponseEnding().broken(promptTooLong('input', { contextTokens: 8_192 }), 'req_1');
  const [event] = namedEvents(broken);
  t.is(event?.name, 'response.failed');
  t.like(event?.data, {
    sequence_number: 0,
    response: { id: 'resp_req_1', status: 'failed', error: { code: 'context_length_exceeded' } },
  });
});
