import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import fc from 'fast-check';
import { BackendError } from '../../../../shared/endpoints/answers/backend-error.ts';
import { createResponseConverter } from '../../../../shared/endpoints/responses/response-events.ts';
import { partedStream } from '../../../support/endpoints/parted-stream.ts';
import { namedEvents } from '../../../support/endpoints/sdk-streams.ts';
import { streamOptions } from '../../../support/stream-options.ts';

const long = 'x'.repeat(1_000_000);
const created = { type: 'response.created', response: { id: 'r' } };
const added = (index: number, item: object) => ({ type: 'response.output_item.added', output_index: index, item });
const delta = (index: number, more: object) => ({ type: 'response.output_text.delta', output_index: index, ...more });

const endless: Record<string, [(count: number) => object, number]> = {
  'text in one place': [() => delta(0, { content_index: 0, delta: long }), 40],
  'places of text': [(count) => delta(0, { content_index: count, delta: 'x'.repeat(1_000) }), 40_000],
  'names of places': [(count) => delta(0, { content_index: count, item_id: `${long}${count}`, delta: '' }), 40],
  'empty places of text': [(count) => delta(0, { content_index: 0, summary_index: `${long}${count}`, delta: '' }), 40],
  'items that end at once': [(count) => ({ type: 'response.output_item.done', item: { id: `${long}${count}` } }), 40],
  items: [(count) => added(count, { id: `i${count}`, type: 'message', content: [long] }), 40],
  'texts that are done at once': [
    (count) => ({ type: 'response.output_text.done', output_index: 0, content_index: count, text: long }),
    40,
  ],
};
for (const [what, [event, most]] of Object.entries(endless)) {
  test(`${what} without end: given up`, async (t) => {
    const converter = createResponseConverter(streamOptions({ model: 'm' }));
    for (const first of [created, added(0, { id: 'i', type: 'message' }), delta(0, { content_index: 0, delta: 'a' })])
      converter.take(JSON.stringify(first));
    let taken = 0;
    const error = await t.throwsAsync(
      async () => {
        for (; taken < most; taken++) {
          converter.take(JSON.stringify(event(taken)));
          if (taken % 100 === 0) await nextTurn();
        }
      },
      { instanceOf: BackendError },
    );
    t.is(error.fault, 'too_large');
  });
}

test('events without a token are not held back without end', (t) => {
  const converter = createResponseConverter(streamOptions({ model: 'm' }));
  const event = JSON.stringify({ type: 'response.in_progress', response: { instructions: long } });
  const error = t.throws(() => Array.from({ length: 40 }, () => converter.take(event)), { instanceOf: BackendError });
  t.is(error.fault, 'unreadable');
});

const anyIndex = fc.oneof(fc.nat(3), fc.constantFrom(-1, 1.5, '0', null, undefined, 2 ** 40));
const anyValue = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constant(undefined));
const types = partedStream.map((data) => String(JSON.parse(data).type));
const anyEvent = fc.record({
  type: fc.oneof(fc.constantFrom(...new Set(types), 'response.incomplete', 'response.refusal.done'), fc.string()),
  sequence_number: anyIndex,
  output_index: anyIndex,
  content_index: anyIndex,
  summary_index: anyIndex,
  item_id: anyValue,
  item: fc.oneof(
    anyValue,
    fc.record({ id: anyValue, type: fc.constantFrom('message', 'reasoning', 'x'), content: anyValue }),
  ),
  part: fc.oneof(
    anyValue,
    fc.record({ type: fc.constantFrom('output_text', 'summary_text', '__proto__'), text: anyValue }),
  ),
  delta: fc.oneof(fc.string(), anyValue),
  text: anyValue,
  response: fc.oneof(anyValue, fc.record({ output: anyValue, usage: anyValue, model: anyValue })),
});

test('any events at all are passed on in their order, or given up; and a stream of them can always be cut', (t) => {
  fc.assert(
    fc.property(fc.array(anyEvent, { maxLength: 12 }), (events) => {
      const converter = createResponseConverter(streamOptions({ model: 'm' }));
      const ready: string[] = [];
      try {
        for (const event of events) ready.push(converter.take(JSON.stringify(event)));
      } catch (error) {
        return t.true(error instanceof BackendError, String(error));
      }
      const before = ready.slice(0, -1).join('') + converter.cut(1);
      const all = namedEvents(before + converter.end({ promptTokens: 1, completionTokens: 2 }, { includeUsage: true }));
      const last = all.at(-1)?.data as { response: object } | undefined;
      t.like(last, {
        type: 'response.incomplete',
        response: { model: 'm', usage: { input_tokens: 1, output_tokens: 2 } },
      });
      const numbers = all.map(({ data }) => Number(data.sequence_number));
      t.deepEqual(
        numbers,
        [...new Set(numbers)].sort((one, other) => one - other),
      );
    }),
    { numRuns: 300 },
  );
});
