import test from 'ava';
import { BackendError } from '../../../../shared/endpoints/answers/backend-error.ts';
import {
  cutMessage,
  messageText,
  parseMessage,
  presentMessage,
} from '../../../../shared/endpoints/messages/message-answers.ts';
import { createMessageConverter } from '../../../../shared/endpoints/messages/message-events.ts';
import { countTokens } from '../../../../shared/endpoints/messages/messages.ts';
import { backendAnswer } from '../../../support/endpoints/backend-answer.ts';
import { namedEvents, sdkMessage } from '../../../support/endpoints/sdk-streams.ts';
import { streamOptions } from '../../../support/stream-options.ts';

const context = { model: 'm', requestId: 'req_1', createdAt: 1_700_000_000 };
const asked = { model: 'm', max_tokens: 1_000, messages: [{ role: 'user', content: 'think aloud' }] };
const { whole, promptTokens, completionTokens } = backendAnswer('/v1/messages', asked);
const tokens = { promptTokens, completionTokens };
const empty = { type: 'message', stop_reason: 'end_turn' };
const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
const presented = (answer: unknown, used = tokens, model = 'm') =>
  JSON.parse(presentMessage(parseMessage(textOf(answer)), used, { ...context, model }));

test('a whole message passes byte for byte', (t) => {
  t.is(presentMessage(parseMessage(whole), tokens, context), whole);
});

test('another name of the model is replaced, and nothing else', (t) => {
  t.deepEqual(presented(whole, tokens, 'alias'), { ...JSON.parse(whole), model: 'alias' });
});

test('properties that a server leaves out are added', (t) => {
  t.deepEqual(presented({ ...empty, content: [] }, { promptTokens: 3, completionTokens: 1 }), {
    ...{ id: 'msg_req_1', type: 'message', role: 'assistant', model: 'm', content: [] },
    ...{ stop_reason: 'end_turn', stop_sequence: null },
    usage: { input_tokens: 3, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
  });
});

test('a message that ended at a stop sequence says so', (t) => {
  const ended = (end: object) => presented({ ...empty, content: [], ...end });
  t.like(ended({ stop_sequence: '.' }), { stop_reason: 'stop_sequence', stop_sequence: '.' });
  t.like(ended({ stop_sequence: null }), { stop_reason: 'end_turn', stop_sequence: null });
});

test('the prompt is what no cache has, what the cache had, and what it keeps', (t) => {
  const usage = { input_tokens: 3, output_tokens: 2, cache_read_input_tokens: 50, cache_creation_input_tokens: 7 };
  const parsed = parseMessage(textOf({ ...empty, content: [], usage }));
  t.deepEqual(parsed.usage, { promptTokens: 60, completionTokens: 2, cachedTokens: 50 });
  t.deepEqual(presented({ ...empty, content: [], usage }, { promptTokens: 60, completionTokens: 2 }).usage, usage);
});

test('a usage above what may be charged is lowered', (t) => {
  const usage = { input_tokens: 3, output_tokens: 500, output_tokens_details: { thinking_tokens: 400 }, vendor: 1 };
  t.deepEqual(presented({ ...empty, content: [], usage }, { promptTokens: 3, completionTokens: 100 }).usage, {
    ...{ input_tokens: 3, output_tokens: 100, vendor: 1 },
  });
});

const unreadable: Record<string, unknown> = {
  'no JSON': '{"type"',
  'another type': { type: 'completion', content: [] },
  'an error': { type: 'error', error: { message: 'Dead.' } },
  'an error beside its content': { type: 'message', content: [], error: { message: 'Dead.' } },
  'no content': { type: 'message' },
  'a content that is a text': { type: 'message', content: 'Hi' },
  'a block that is no object': { type: 'message', content: ['Hi'] },
};
for (const [title, answer] of Object.entries(unreadable)) {
  test(`not taken for a message: ${title}`, (t) => {
    const error = t.throws(() => parseMessage(textOf(answer)), { instanceOf: BackendError });
    t.is(error.fault, /error|failed/.test(title) ? 'said' : 'unreadable');
  });
}

test('cut to any share, the message keeps its beginning and says that it ended at its limit', (t) => {
  const given = parseMessage(whole);
  const all = messageText(given);
  for (let share = 0; share < 1; share += 0.05) {
    const cut = cutMessage(given, share);
    t.true(all.startsWith(messageText(cut)));
    t.true(messageText(cut).length <= Math.floor(all.length * share));
    t.is(JSON.parse(cut.text).stop_reason, 'max_tokens');
    t.notThrows(() => parseMessage(cut.text));
  }
});

test('a cut call of a tool keeps its name and its id', (t) => {
  const content = [{ type: 'tool_use', id: 'toolu_1', name: 'weather', input: { place: 'x'.repeat(100) } }];
  const cut = cutMessage(parseMessage(textOf({ ...empty, content })), 0.5);
  t.like(cut.answer.content[0], { type: 'tool_use', id: 'toolu_1', name: 'weather' });
});

test('a count of tokens passes byte for byte; any other answer is not taken for one', (t) => {
  const { answer } = countTokens;
  const text = '{ "input_tokens": 12, "context_management": null }';
  t.is(answer.present(answer.parse(text), { promptTokens: 0, completionTokens: 0 }, context), text);
  t.is(answer.writtenIn(answer.parse(text)), '');
  for (const other of [
    '{}',
    '[]',
    '{"input_tokens":"12"}',
    '{"input_tokens":-1}',
    '{"input_tokens":1.5}',
    'null',
    '<html>',
  ])
    t.throws(() => answer.parse(other), { instanceOf: BackendError }, other);
  t.is(answer.estimate?.(17), '{"input_tokens":17}');
});

test('the arguments of a tool call count as they were written, with their names and numbers, and are cut as a whole', (t) => {
  const input = { id: 'x', status: 'y', numbers: [1, 2, 3], nested: { deep: true } };
  const parsed = parseMessage(
    textOf({
      ...empty,
      content: [
        { type: 'text', text: 'Hi' },
        { type: 'tool_use', id: 'no', name: 'f', input },
      ],
    }),
  );
  t.is(messageText(parsed), `Hif${JSON.stringify(input)}`);
  t.deepEqual((cutMessage(parsed, 1).answer as { content?: unknown }).content, parsed.answer.content);
  t.like(cutMessage(parsed, 0.5).answer, { content: [{ text: 'Hi' }, { name: 'f', input: {} }] });
});

const tools = [{ name: 'weather' }, { name: 'time' }];
const eventsFor = (content: string, more: object = {}) =>
  backendAnswer('/v1/messages', { model: 'm', max_tokens: 1_000, messages: [{ role: 'user', content }], ...more })
    .events;

const block = (index: number, content_block: object) => ({ type: 'content_block_start', index, content_block });
const delta = (index: number, given: object) => ({ type: 'content_block_delta', index, delta: given });
const stop = (index: number) => ({ type: 'content_block_stop', index });
const text = (index: number, piece: string) => delta(index, { type: 'text_delta', text: piece });
const message = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [],
  usage: { input_tokens: 3 },
};
const inTurns = [
  { type: 'message_start', message },
  block(0, { type: 'text', text: '' }),
  text(0, 'One'),
  block(1, { type: 'text', text: '' }),
  text(1, 'Two'),
  text(0, ' more'),
  stop(0),
  text(1, ' more'),
  stop(1),
  block(2, { type: 'text', text: 'Three' }),
  stop(2),
  { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 9 } },
  { type: 'message_stop' },
].map((event) => JSON.stringify(event));

const streams: Record<string, readonly string[]> = {
  text: eventsFor('Grüße 👩‍👩‍👧‍👦'),
  'thinking and text': eventsFor('think aloud'),
  'two tools': eventsFor('call weather and call time', { tools }),
  'blocks that take turns': inTurns,
};

type Delta = { text?: string; thinking?: string; partial_json?: string };

/** The text of each block that these events have brought so far. */
function textsIn(sent: string): Map<unknown, string> {
  const texts = new Map<unknown, string>();
  for (const { data } of namedEvents(sent)) {
    const { text = '', thinking = '', partial_json = '' } = (data.content_block ?? data.delta ?? {}) as Delta;
    if (data.index !== undefined)
      texts.set(data.index, `${texts.get(data.index) ?? ''}${text}${thinking}${partial_json}`);
  }
  return texts;
}

for (const [title, events] of Object.entries(streams)) {
  test(`${title}, cut at its limit at any event: the SDK takes what was delivered as a message that ended at its limit`, async (t) => {
    for (const at of events.keys()) {
      const converter = createMessageConverter(streamOptions({ model: 'alias' }));
      const ready = events.slice(0, at + 1).map((data) => converter.take(data));
      // What comes with the event that exceeds the limit is not delivered.
      const before = ready.slice(0, -1).join('') + converter.cut(1);
      const all = before + converter.end({ promptTokens: 7, completionTokens: at }, { includeUsage: true });
      const about = `cut at event ${at}, ${JSON.parse(events[at] ?? '').type}`;
      const sent = namedEvents(all);
      t.deepEqual(
        sent.slice(-2).map(({ name }) => name),
        ['message_delta', 'message_stop'],
        about,
      );
      t.like(sent.at(-2)?.data, { delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: at } }, about);
      const begun = sent.filter(({ name }) => name === 'content_block_start').map(({ data }) => data.index);
      const ended = sent.filter(({ name }) => name === 'content_block_stop').map(({ data }) => data.index);
      t.deepEqual(ended.toSorted(), begun.toSorted(), about);
      if (at === 0) continue; // no SDK takes a stream that has nothing but its end
      const { message: received } = await sdkMessage(all);
      t.like(received, { model: 'alias', stop_reason: 'max_tokens', usage: { output_tokens: at } }, about);
      const texts = textsIn(before);
      for (const [index, part] of received.content.entries()) {
        if (part.type === 'text') t.is(part.text, texts.get(index) ?? '', about);
        if (part.type === 'thinking') t.is(part.thinking, texts.get(index) ?? '', about);
      }
      t.is(received.content.length, texts.size, about);
    }
  });
}
