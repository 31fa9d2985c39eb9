import test from 'ava';
import fc from 'fast-check';
import { countTokens } from '../../../workers/failover/count-tokens.ts';
import { createTokenMeter } from '../../../workers/failover/output-guard.ts';

test('a text that is too short for the limit is not counted', (t) => {
  const meter = createTokenMeter();
  meter.add('a'.repeat(10));
  t.is(meter.isOver(10), false);
  meter.add('東');
  t.is(meter.isOver(13), false, 'a character of three bytes is at most three tokens');
  t.not(meter.isOver(12), false);
});

test('a text has the same number of tokens in any parts', async (t) => {
  const words = fc.array(fc.constantFrom('word', 'a', 'considerations', '東京', 'x1', '{"a":1}'), {
    minLength: 1,
    maxLength: 3_000,
  });
  await fc.assert(
    fc.asyncProperty(words, fc.integer({ min: 1, max: 700 }), async (some, size) => {
      const text = some.join(' ');
      const tokens = await countTokens(text);
      const meter = createTokenMeter();
      for (let at = 0; at < text.length; at += size) {
        meter.add(text.slice(at, at + size));
        if (at % 3 === 0) await meter.isOver(at / 5);
      }
      t.deepEqual(
        [await meter.isOver(tokens - 1), await meter.isOver(tokens)],
        [true, false],
        `${text.length} by ${size}`,
      );
    }),
    { numRuns: 30 },
  );
});

test('only a part of a long text is kept, and it is counted in steps', async (t) => {
  const meter = createTokenMeter();
  const text = 'some words '.repeat(100_000);
  meter.add(text);
  t.true(await meter.isOver(199_000));
  t.false(await meter.isOver(201_000));
});
