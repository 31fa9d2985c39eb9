import test from 'ava';
import fc from 'fast-check';
import { mayBeInexact } from '../../../shared/json/exact-json.ts';

test('a number of more than 15 digits or with a three-digit exponent is found at any position', (t) => {
  for (let before = 0; before < 40; before++) {
    const array = (number: string) => `[${' '.repeat(before)}${number}]`;
    for (const exact of ['123456789012345', '0.1234567890123', '-1e99', '1E+12', '1.5', 'true']) {
      t.false(mayBeInexact(array(exact)), array(exact));
    }
    for (const inexact of ['1234567890123456', '0.12345678901234', '-1e100', '1E+999', '1.5e-324']) {
      t.true(mayBeInexact(array(inexact)), array(inexact));
    }
  }
});

test('for any text the result is that of a search by regular expression', (t) => {
  const piece = fc.constantFrom('1', '.', '12345678', '1234567890123456', 'e', 'E-', '..........', ' ', ',', '999');
  const text = fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(text, (json) => mayBeInexact(json) === /\d[\d.]{15}|\d[eE][+-]?\d{3}/.test(json)),
    { numRuns: 2_000 },
  );
  t.pass();
});
