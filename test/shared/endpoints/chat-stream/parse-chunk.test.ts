import test from 'ava';
import fc from 'fast-check';
import { BackendError } from '../../../../shared/endpoints/answers/backend-error.ts';
import { chunkSchema, isPlainChunk, parseChunk } from '../../../../shared/endpoints/chat-stream/follow-answer.ts';

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

test('a chunk that passes without the schema is one that the schema would return unchanged', (t) => {
  let passed = 0;
  fc.assert(
    fc.property(fc.oneof(chunk, anything), (value) => {
      if (!isPlainChunk(value)) return;
      passed += 1;
      t.deepEqual(chunkSchema.parse(value), value);
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

test('a null error is ignored', (t) => {
  t.like(parseChunk('{"choices": [{"index": 1, "delta": null, "finish_reason": null}], "error": null}'), {
    choices: [{ index: 1 }],
  });
});

const failures = [
  ['not JSON', 'a secret text', { fault: 'unreadable', message: 'an event is not JSON' }],
  ['not a chunk', '{"choices": "none"}', { fault: 'unreadable', message: 'an event is not a chunk' }],
  [
    'a chunk that is wrong in one field',
    '{"choices": [{"index": 0, "finish_reason": 1}]}',
    { fault: 'unreadable', message: 'an event is not a chunk' },
  ],
  [
    'an error',
    '{"error": {"message": "out of memory"}}',
    { fault: 'said', message: 'the backend answered an error', said: { words: 'out of memory', kinds: [] } },
  ],
  [
    'an error beside choices',
    '{"choices": [], "error": {"message": "out of memory"}}',
    { fault: 'said', message: 'the backend answered an error', said: { words: 'out of memory', kinds: [] } },
  ],
] as const;

for (const [what, data, expected] of failures) {
  test(`${what}: fails the call as ${expected.fault}`, (t) => {
    const error = t.throws(() => parseChunk(data), { instanceOf: BackendError });
    t.like(error, expected);
  });
}
