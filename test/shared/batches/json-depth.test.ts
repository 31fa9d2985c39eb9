import test from 'ava';
import fc from 'fast-check';
import { nestsDeeper } from '../../../shared/batches/json-depth.ts';

const deeper = (text: string, levels: number) => nestsDeeper(Buffer.from(text), levels);

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

test('any JSON nests as deep as it does, and no deeper', (t) => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      const depth = depthOf(JSON.parse(text));
      t.false(deeper(text, depth));
      if (depth > 0) t.true(deeper(text, depth - 1));
    }),
  );
  t.pass();
});

test('brackets within a text are a part of it, also behind what is escaped there', (t) => {
  t.false(deeper('{"a":"[[[[\\"[[[[\\\\"}', 1));
  t.true(deeper('{"a":"\\\\",b:[[', 2));
});
