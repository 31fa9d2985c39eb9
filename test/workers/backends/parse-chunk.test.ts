import test from 'ava';
import fc from 'fast-check';
import { chatChunkSchema } from '../../../shared/chat-completion.ts';
import { isPlainChunk } from '../../../workers/backends/parse-chunk.ts';

const anything = fc.oneof(
  fc.jsonValue(),
  fc.integer(),
  fc.constantFrom(null, undefined, -1, 0, 1e9, 1e300, 0.5, '', 'x'),
);
const mostly = <Value>(usual: fc.Arbitrary<Value>) =>
  fc.oneof({ arbitrary: usual as fc.Arbitrary<unknown>, weight: 9 }, { arbitrary: anything, weight: 1 });
const choice = fc.record(
  {
    index: mostly(fc.nat()),
    delta: mostly(fc.constantFrom({ content: 'x' }, {}, null, undefined)),
    finish_reason: mostly(fc.constantFrom('stop', '', null, undefined)),
    x: anything,
  },
  { requiredKeys: ['index'] },
);
const chunk = fc.record(
  {
    model: mostly(fc.string()),
    choices: mostly(fc.array(mostly(choice), { maxLength: 3 })),
    usage: anything,
    x: anything,
  },
  { requiredKeys: ['choices'] },
);

test('what passes without the schema is what the schema would give back unchanged', (t) => {
  let passed = 0;
  fc.assert(
    fc.property(fc.oneof(chunk, anything), (value) => {
      if (!isPlainChunk(value)) return;
      passed += 1;
      t.deepEqual(chatChunkSchema.parse(value), value);
    }),
    { numRuns: 2_000 },
  );
  t.true(passed > 100, `${passed} passed`);
});

test('a chunk as model servers write it passes without the schema', (t) => {
  const delta = { role: 'assistant', content: 'Grüße' };
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: null }];
  t.true(isPlainChunk({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices }));
  t.true(isPlainChunk({ choices: [], usage: { prompt_tokens: 1 } }));
});
