import test from 'ava';
import fc from 'fast-check';
import { createUtf8Decoder } from '../../../workers/backend-client/read-events.ts';

function decoded(pieces: readonly Uint8Array[]) {
  const decode = createUtf8Decoder();
  let all = '';
  for (const piece of pieces) {
    const { text, failure } = decode(piece);
    all += text;
    if (failure !== undefined) return { all, isWhole: false };
  }
  return { all, isWhole: true };
}

const characters = fc.string({ unit: 'binary' }).map((text) => Buffer.from(text));
const wrong = fc.constantFrom(
  [0xff],
  [0x80],
  [0xc0, 0x80],
  [0xe6, 0x9d],
  [0xed, 0xa0, 0x80],
  [0xf0, 0x9f, 0x8e],
  [0xf5],
);

test('gives out all text before the first bytes that are not UTF-8, however they are split', (t) => {
  fc.assert(
    fc.property(characters, fc.option(wrong), characters, (before, bad, after) => {
      const bytes = Buffer.concat([before, Buffer.from(bad ?? []), Buffer.from(bad ? 'x' : ''), after]);
      const expected =
        bad === null ? { all: bytes.toString(), isWhole: true } : { all: before.toString(), isWhole: false };
      t.deepEqual(decoded([bytes]), expected);
      t.deepEqual(decoded(Array.from(bytes, (byte) => Uint8Array.of(byte))), expected);
      for (let at = 0; at <= bytes.length; at++) {
        t.deepEqual(decoded([bytes.subarray(0, at), bytes.subarray(at)]), expected, `split at ${at}`);
      }
    }),
    { numRuns: 200 },
  );
});
