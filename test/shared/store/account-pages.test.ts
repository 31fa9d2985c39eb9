import test from 'ava';
import fc from 'fast-check';
import { rangeOf } from '../../../shared/store/account-pages.ts';

const bytes = (text: string) => Buffer.from(text);
const isBefore = (one: string, other: string) => Buffer.compare(bytes(one), bytes(other)) < 0;

test('a range starts at its prefix, or after the given id, and ends before the first text without the prefix', (t) => {
  t.deepEqual(rangeOf({}), { from: '', includesFrom: true, end: undefined });
  t.deepEqual(rangeOf({ prefix: 'user:a' }), { from: 'user:a', includesFrom: true, end: 'user:b' });
  t.deepEqual(rangeOf({ prefix: 'a', after: 'a' }), { from: 'a', includesFrom: false, end: 'b' });
  t.deepEqual(rangeOf({ prefix: 'a', after: 'A' }), { from: 'a', includesFrom: true, end: 'b' });
  t.deepEqual(rangeOf({ after: 'a' }), { from: 'a', includesFrom: false, end: undefined });
});

test('there is no text after the last character, and half a surrogate pair is not a character', (t) => {
  const endOf = (prefix: string) => rangeOf({ prefix }).end;
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
      const { from, includesFrom, end } = rangeOf({ prefix, after });
      const isAfterFrom = includesFrom ? !isBefore(id, from) : isBefore(from, id);
      const isIn = isAfterFrom && (end === undefined || isBefore(id, end));
      return isIn === (id.startsWith(prefix) && (after === undefined || isBefore(after, id)));
    }),
    { numRuns: 5_000 },
  );
  t.pass();
});
