import test from 'ava';
import fc from 'fast-check';
import { describeEdit, mutatedInputs } from './mutate-seeds.ts';

const seeds = ['the first seed', 'another one'].map((text, index) => ({ name: `${index}`, bytes: Buffer.from(text) }));
const bytesMax = 200;
const structured = fc.string().map((text) => Buffer.from(text.repeat(20)));
const inputs = mutatedInputs({ words: ['word'], structured, bytesMax }, seeds);
const sample = fc.sample(inputs, { numRuns: 3_000, seed: 1 });

test('inputs are seeds with at least one edit, and structured inputs with and without edits', (t) => {
  for (const { name } of seeds) t.true(sample.some(({ from }) => from === name));
  t.true(sample.every(({ from, edits }) => from === 'structured' || edits.length > 0));
  t.true(sample.some(({ from, edits }) => from === 'structured' && edits.length > 0));
  t.true(sample.some(({ from, edits }) => from === 'structured' && edits.length === 0));
});

test("each kind of edit occurs and is described in one line, and no input exceeds its target's limit", (t) => {
  const described = sample.flatMap(({ edits }) => edits.map(describeEdit));
  for (const kind of [/^flip bit/, /^remove/, /^insert/, /^repeat/, /of another|of [01] from/, /by "word"$/]) {
    t.true(
      described.some((text) => kind.test(text)),
      String(kind),
    );
  }
  t.true(described.every((text) => !text.includes('\n')));
  t.true(sample.every(({ bytes }) => bytes.length <= bytesMax));
  t.true(sample.some(({ bytes }) => bytes.length === bytesMax));
});

test('the same number gives the same inputs', (t) => {
  const again = fc.sample(inputs, { numRuns: 3_000, seed: 1 });
  t.deepEqual(
    again.map(({ bytes }) => bytes.toString('hex')),
    sample.map(({ bytes }) => bytes.toString('hex')),
  );
});

test('edits do not change the seeds', (t) => {
  t.deepEqual(
    seeds.map(({ bytes }) => bytes.toString()),
    ['the first seed', 'another one'],
  );
});
