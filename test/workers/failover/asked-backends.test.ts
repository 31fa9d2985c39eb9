import test from 'ava';
import { createAskedBackends } from '../../../workers/failover/asked-backends.ts';
import type { Decision } from '../../../workers/failover/decide-outcome.ts';

type Contexts = Record<string, number | undefined>;
type Job = Partial<Parameters<typeof createAskedBackends>[0]['job']>;

/** Backends of a model, with the contexts that are known of them. */
function open(contexts: Contexts = { large: undefined, small: undefined }, job: Job = {}) {
  const asked = createAskedBackends({
    slots: {
      namesOf: () => Object.keys(contexts),
      called: () => new Map(),
      contextOf: (name) => contexts[name],
      callableInMs: () => 0,
    },
    job: { model: 'm', promptEstimate: 1, choices: 1, outputTokensMax: 100, earlierRuns: [], ...job },
  });
  return {
    asked,
    note: (name: string, decision: Partial<Decision>) =>
      asked.note({ name, backend: { location: 'on-prem' } as never }, { rule: 'x', words: '', ...decision } as never), // the members that are read
    result: () => asked.result({ lane: 'interactive' }),
  };
}

const tooLong = (contextTokens?: number, promptTokens?: number): Partial<Decision> => ({
  ...{ outcome: 'too_long', contextTokens, promptTokens },
});

test('a prompt that no context has room for is reported with the largest of them, in any order', (t) => {
  for (const contexts of [
    [32_768, 8_192],
    [8_192, 32_768],
    [undefined, 32_768],
    [32_768, undefined],
  ]) {
    const { note, result } = open();
    for (const [index, context] of contexts.entries())
      t.is(note(['large', 'small'][index] ?? '', tooLong(context, context && 40_000)), 'ask others');
    t.deepEqual(result(), { outcome: 'too_long', numbers: { promptTokens: 40_000, contextTokens: 32_768 } });
  }
});

test('it is too long only if each backend says so, or has a context that is not larger', (t) => {
  const { asked, note, result } = open({ large: 32_768, small: 8_192 });
  note('small', tooLong(8_192));
  t.is(asked.limits().promptTokensMin, 8_192);
  t.is(result().outcome, 'exhausted', 'the large one may only be full or paused');
  note('large', tooLong());
  t.deepEqual(result(), { outcome: 'too_long', numbers: { promptTokens: undefined, contextTokens: 32_768 } });

  const known = open({ one: 8_192, other: 8_192 });
  known.note('one', tooLong(8_192));
  t.is(known.result().outcome, 'too_long', 'the other one need not be asked');

  const lacking = open({ one: undefined, other: undefined });
  lacking.note('other', { outcome: 'not_offered', status: 404 });
  lacking.note('one', tooLong());
  t.is(lacking.result().outcome, 'too_long');
});

test('the last outcome of a backend counts: it was busy or failed, and then says that the prompt is too long', (t) => {
  for (const outcome of ['busy', 'loading', 'failed', 'interrupted'] as const) {
    const { note, result } = open({ only: undefined });
    t.is(note('only', { outcome }), outcome === 'busy' || outcome === 'loading' ? 'wait' : 'ask others');
    t.is(result().outcome, 'exhausted', outcome);
    note('only', tooLong());
    t.is(result().outcome, 'too_long', outcome);
  }
});

test('an estimate is compared with contexts if there is one prompt, and there is a backend', (t) => {
  const contexts = { only: 512 };
  const promptEstimate = 8 * 512;
  t.is(open(contexts, { promptEstimate }).result().outcome, 'too_long');
  t.is(open(contexts, { promptEstimate: promptEstimate - 1 }).result().outcome, 'exhausted');
  t.is(open(contexts, { promptEstimate, choices: 32 }).result().outcome, 'exhausted', 'a list of prompts');
  t.is(open(contexts, { promptEstimate, outputTokensMax: 0 }).result().outcome, 'exhausted', 'texts for vectors');
  t.is(open({}, { promptEstimate }).result().outcome, 'exhausted', 'the model has no backend here');
});

test('what each backend does not implement is the client’s mistake', (t) => {
  const { note, result } = open();
  note('large', { outcome: 'not_offered', status: 501 });
  t.is(result().outcome, 'exhausted', 'the other one was not asked');
  note('small', { outcome: 'not_offered', status: 501 });
  t.is(result().outcome, 'refused');
});
