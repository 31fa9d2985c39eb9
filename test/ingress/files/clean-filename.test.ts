import test from 'ava';
import fc from 'fast-check';
import { cleanFilename } from '../../../ingress/files/clean-filename.ts';

test('a name is kept as it was given', (t) => {
  for (const name of [
    'in.jsonl',
    'a b.jsonl',
    'Übung 東京 🙂.jsonl',
    '"quoted"; x=y',
    '%22.jsonl',
    '.hidden',
    'a..b',
  ]) {
    t.is(cleanFilename(name), name);
  }
});

test('the folders before a name go, and what is no name is none', (t) => {
  t.is(cleanFilename('/etc/passwd'), 'passwd');
  t.is(cleanFilename('..\\..\\C:\\in.jsonl'), 'in.jsonl');
  for (const name of ['', '/', 'a/', '..', '.', 'a/..', '\0', '\x7f\n']) t.is(cleanFilename(name), '', name);
});

test('a name is of 255 characters at most, and none of them is cut in two', (t) => {
  t.is(cleanFilename('x'.repeat(256)), 'x'.repeat(255));
  t.is(cleanFilename('🙂'.repeat(300)), '🙂'.repeat(255));
});

test('whatever was given, what is kept has no path, no control character and no half of a character', (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (given) => {
      const name = cleanFilename(given);
      t.notRegex(name, /[/\\\p{Cc}\p{Cs}]/u);
      t.true([...name].length <= 255);
      t.is(cleanFilename(name), name);
    }),
  );
});
