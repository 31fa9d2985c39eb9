import test from 'ava';
import fc from 'fast-check';
import { rangeOf } from '../../../../shared/store/records/account-store.ts';

const bytes = (text: string) => Buffer.from(text);
const isBefore = (one: string, other: string) => Buffer.compare(bytes(one), bytes(other)) < 0;

test('a range starts at its prefix, or after the given id, and ends before the first text without the prefix', (t) => {
  t.deepEqual(rangeOf({}), { from: '', before: undefined });
  t.deepEqual(rangeOf({ prefix: 'user:a' }), { from: 'user:a', before: 'user:b' });
  t.deepEqual(rangeOf({ prefix: 'a', after: 'a' }), { after: { id: 'a' }, before: 'b' });
  t.deepEqual(rangeOf({ prefix: 'a', after: 'A' }), { from: 'a', before: 'b' });
  t.deepEqual(rangeOf({ after: 'a' }), { after: { id: 'a' }, before: undefined });
});

test('there is no text after the last character, and half a surrogate pair is not a character', (t) => {
  const endOf = (prefix: string) => rangeOf({ prefix }).before;
  t.is(endOf('a\u{10ffff}'), 'b');
  t.is(endOf('a\u{10ffff}\u{10ffff}'), 'b');
  t.is(endOf('\u{10ffff}'), undefined);
  t.is(endOf('a\ud7ff'), 'a\ue000');
  t.is(endOf('a\uffff'), 'a\u{10000}');
});

test('for any prefix and id, a range has exactly the texts that start with the prefix and follow the id', (t) => {
  const text = fc.string({
    unit: fc.constantFrom('', 'a', 'b', '\0', '\ud7ff', '\ue000', '\uffff', '\u{10ffff}'),
    maxLength: 4,
  });
  fc.assert(
    fc.property(text, fc.option(text, { nil: undefined }), text, (prefix, after, id) => {
      const { from, after: start, before } = rangeOf({ prefix, after });
      const isFrom = from === undefined || !isBefore(id, from);
      const isAfter = start === undefined || isBefore(start.id, id);
      const isIn = isFrom && isAfter && (before === undefined || isBefore(id, before));
      return isIn === (id.startsWith(prefix) && (after === undefined || isBefore(after, id)));
    }),
    { numRuns: 5_000 },
  );
  t.pass();
});
