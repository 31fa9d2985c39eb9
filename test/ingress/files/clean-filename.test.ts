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

test('characters that are not seen go: of direction, without width, of format', (t) => {
  const codes = [0x061c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069];
  const others = [
    0x00ad, 0x034f, 0x180e, 0x200b, 0x2028, 0x2029, 0x2060, 0x2064, 0x206a, 0x3164, 0xfeff, 0xfff9, 0xe0041,
  ];
  for (const code of [...codes, ...others]) {
    const hidden = String.fromCodePoint(code);
    for (const around of ['report', 'отчёт', 'گزارش', '東京', '🙂']) {
      t.is(cleanFilename(`${around}${hidden}fdp.exe${hidden}`), `${around}fdp.exe`, `U+${code.toString(16)}`);
    }
  }
  t.is(cleanFilename('.\u200E.'), '');
  t.is(cleanFilename('\u202E'), '');
});

test('joiners and variation selectors stay where a script or an emoji needs them, and nowhere else', (t) => {
  const needed = [
    ...['می\u200Cخواهم.txt', 'क्\u200Dष.txt', 'ශ්\u200Dරී.txt', 'নার্\u200C.txt'],
    ...['👩\u200D👩\u200D👧.png', '👩🏽\u200D💻.png', '❤\uFE0F\u200D🔥.png', '1\uFE0F\u20E3.png', '葛\u{E0100}.txt'],
  ];
  for (const name of needed) t.is(cleanFilename(name), name);
  for (const hidden of ['\u200C', '\u200D', '\uFE0F', '\uFE00', '\u{E0100}', '\u180B']) {
    t.is(cleanFilename(`${hidden}inv${hidden}oice.p${hidden}df${hidden}`), 'invoice.pdf');
    t.is(cleanFilename(`сч${hidden}ёт`), 'счёт');
  }
  t.is(cleanFilename('می\u200C\u200C\u200Cخواهم'), 'می\u200Cخواهم', 'one is enough');
  t.is(cleanFilename('🙂\u200C🙂'), '🙂🙂');
});

test('a name is of 255 characters at most, and none of them is cut in two', (t) => {
  t.is(cleanFilename('x'.repeat(256)), 'x'.repeat(255));
  t.is(cleanFilename('🙂'.repeat(300)), '🙂'.repeat(255));
});

test('whatever was given, what is kept has no path, no control character and no half of a character', (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (given) => {
      const name = cleanFilename(given);
      t.notRegex(name, /[/\\\p{Cc}\p{Cs}\p{Bidi_Control}\u200B\u2060\uFEFF]/u);
      t.true([...name].length <= 255);
      t.is(cleanFilename(name), name);
    }),
  );
});
