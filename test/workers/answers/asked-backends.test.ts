import test from 'ava';
import { createAskedBackends } from '../../../workers/answers/asked-backends.ts';

const slots = {
  namesOf: () => ['large', 'small'],
  called: () => new Map(),
  contextMax: () => Number.POSITIVE_INFINITY,
  callableInMs: () => 0,
};
const tooLong = (contextTokens?: number, promptTokens?: number) =>
  ({ outcome: 'too_long', rule: 'x', words: '', contextTokens, promptTokens }) as never; // the members that are read

test('a prompt that no context has room for is reported with the largest of them, in any order', (t) => {
  for (const contexts of [
    [32_768, 8_192],
    [8_192, 32_768],
    [undefined, 32_768],
    [32_768, undefined],
  ]) {
    const asked = createAskedBackends({ slots, job: { model: 'm', promptEstimate: 1, earlierRuns: [] } });
    for (const context of contexts) {
      t.is(asked.note({ name: 'x', backend: {} as never }, tooLong(context, context && 40_000)), 'ask others');
    }
    t.deepEqual(asked.result({ lane: 'interactive' }), {
      outcome: 'too_long',
      numbers: { promptTokens: 40_000, contextTokens: 32_768 },
    });
  }
});
