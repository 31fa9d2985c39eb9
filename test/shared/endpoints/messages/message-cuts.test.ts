import test from 'ava';
import { createMessageConverter } from '../../../../shared/endpoints/messages/message-events.ts';
import { backendAnswer } from '../../../support/endpoints/backend-answer.ts';
import { namedEvents, sdkMessage } from '../../../support/endpoints/sdk-streams.ts';
import { streamOptions } from '../../../support/stream-options.ts';

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
