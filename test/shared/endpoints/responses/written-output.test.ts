import test from 'ava';
import { BackendError } from '../../../../shared/endpoints/answers/backend-error.ts';
import { createSizeBudget } from '../../../../shared/endpoints/answers/parse-backend-json.ts';
import { createResponseConverter } from '../../../../shared/endpoints/responses/response-events.ts';
import { createWrittenOutput } from '../../../../shared/endpoints/responses/written-output.ts';
import { backendAnswer } from '../../../support/endpoints/backend-answer.ts';
import { partedStream } from '../../../support/endpoints/parted-stream.ts';
import { streamOptions } from '../../../support/stream-options.ts';

type Event = { type: string; [name: string]: unknown };

const text = 'Grüße aus der Küche';
const place = { output_index: 0, content_index: 0 };
const part = { type: 'output_text', text };
const message = { type: 'message', content: [part] };
const created = { type: 'response.created', response: { output: [] } };
const delta = (delta: string) => ({ type: 'response.output_text.delta', ...place, delta });
const textDone = { type: 'response.output_text.done', ...place, text };
const partDone = { type: 'response.content_part.done', ...place, part };
const itemDone = { type: 'response.output_item.done', output_index: 0, item: message };
const completed = { type: 'response.completed', response: { output: [message] } };

function converted(events: readonly (string | Event)[]) {
  const converter = createResponseConverter(streamOptions({ model: 'm' }));
  for (const event of events) converter.take(typeof event === 'string' ? event : JSON.stringify(event));
  return converter;
}

const item = (item: object) => ({ type: 'response.output_item.done', output_index: 0, item });
const once: Record<string, [readonly Event[], string?]> = {
  'in pieces': [[delta('Grüße aus'), delta(' der Küche')]],
  'when it is done': [[textDone]],
  'when its part is done': [[partDone]],
  'when its item is done': [[itemDone]],
  'with its item': [[{ ...itemDone, type: 'response.output_item.added' }]],
  'at the end': [[completed]],
  'everywhere, in full': [
    [{ ...itemDone, type: 'response.output_item.added' }, delta(text), textDone, itemDone, completed],
  ],
  'everywhere, the pieces in part': [[delta('Grüße'), textDone, partDone, itemDone, completed]],
  'without places': [
    [{ type: 'response.output_text.delta', delta: text }, { ...itemDone, output_index: undefined }, completed],
  ],
  'in another place of the output': [
    [delta(text), { ...completed, response: { output: [{ type: 'reasoning' }, message] } }],
  ],
  'as a refusal': [[{ type: 'response.refusal.done', ...place, refusal: 'No.' }], 'No.'],
  'as reasoning': [[item({ type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }] })], 'Hm.'],
  'as arguments': [
    [{ type: 'response.function_call_arguments.done', output_index: 0, arguments: '{"a":1}' }],
    '{"a":1}',
  ],
  'as a call': [[item({ type: 'function_call', name: 'f', call_id: 'c', arguments: '{"a":1}' })], '{"a":1}'],
  'in an event that also has a response': [[{ ...delta(text), response: {} }]],
};
for (const [where, [events, expected = text]] of Object.entries(once)) {
  test(`text counts once if no usage is reported: ${where}`, (t) => {
    const converter = converted([created, ...events]);
    t.deepEqual(converter.text(), { sample: expected, characters: expected.length });
    t.true(converter.begun());
  });
}

test('the second of two texts of an item counts, in whichever way each comes', (t) => {
  const second = { ...textDone, content_index: 1, text: ' und Bad' };
  for (const first of [[delta(text), textDone], [textDone]])
    t.is(converted([created, ...first, second]).text().sample, `${text} und Bad`);
});

test('what other events repeat of usual streams does not count again', (t) => {
  const asked = { model: 'm', input: 'think aloud and call weather', tools: [{ type: 'function', name: 'weather' }] };
  for (const events of [backendAnswer('/v1/responses', asked).events, partedStream]) {
    const pieces = events.map((data) => JSON.parse(data).delta ?? '');
    t.is(converted(events).text().sample, pieces.join(''));
  }
});

test('items without end are given up, and none is kept for events without text', (t) => {
  const { take } = createWrittenOutput(createSizeBudget(33_554_432));
  for (let index = 0; index < 100_000; index++)
    take({ type: 'response.output_text.delta', output_index: index, delta: '' });
  const error = t.throws(
    () => {
      for (let index = 0; index < 100_000; index++)
        take({ type: 'response.output_text.delta', output_index: index, delta: 'x' });
    },
    { instanceOf: BackendError },
  );
  t.is(error.fault, 'too_large');
});
