import test from 'ava';
import * as cl100k from 'gpt-tokenizer/encoding/cl100k_base';
import * as o200k from 'gpt-tokenizer/encoding/o200k_base';
import { estimateTokens } from '../../../../shared/endpoints/tokens/estimate-tokens.ts';
import { costs } from '../../../../shared/endpoints/tokens/token-costs.ts';
import { hostileTexts } from '../../../support/hostile-texts.ts';
import { seededRandom } from '../../../support/random.ts';
import { scriptSamples } from '../../../support/script-samples.ts';
import { ordinaryTexts } from '../../../support/text-samples.ts';

type Encoding = Pick<typeof o200k, 'countTokens'>;

/** The encoder's time grows with the square of an unbroken run, so it gets at most this much at once. */
const parts = /.{0,127}\S(?= \S|$)|.{1,128}/gsu;

/** A special token is counted as plain text. */
function count({ countTokens }: Encoding, text: string): number {
  const options = { disallowedSpecial: new Set<string>() };
  return (text.match(parts) ?? []).reduce((sum, part) => sum + countTokens(part, options), 0);
}

type Compared = { kind: string; modern: number; older: number; error: number };

/** Counts in both vocabularies. `error` is relative to the larger count: 0.1 means that the estimate is 10 % too high. */
function compare(kind: string, text: string): Compared {
  const [modern, older] = [count(o200k, text), count(cl100k, text)];
  return { kind, modern, older, error: estimateTokens(text) / Math.max(modern, older) - 1 };
}

const compareAll = (texts: Readonly<Record<string, string>>) =>
  Object.entries(texts).map(([kind, text]) => compare(kind, text));
const percent = (error: number) => `${error < 0 ? '' : '+'}${Math.round(error * 100)} %`;
const listed = (all: readonly Compared[]) => all.map(({ kind, error }) => `${kind} ${percent(error)}`).join(', ');

/** At most 1.3 times too low, and at most 3 times too high (contract.md#ho9-estimates). */
const lowest = 1 / 1.3 - 1;
const highest = 3 - 1;
const isWithin = ({ error }: Compared) => error >= lowest && error <= highest;

test('ordinary text is estimated between 16 % too low and 60 % too high, and never below o200k_base', (t) => {
  const all = compareAll(ordinaryTexts);
  t.log(listed(all));
  for (const { kind, error, modern } of all) {
    t.true(error >= -0.17 && error <= 0.6, `${kind}: ${percent(error)}`);
    t.true(estimateTokens(ordinaryTexts[kind] ?? '') >= modern, kind);
  }
  const average = all.reduce((sum, { error }) => sum + error, 0) / all.length;
  t.true(average > 0 && average < 0.3, percent(average));
});

test('real text of every script is at most 1.3 times too low against both vocabularies', (t) => {
  const all = compareAll(scriptSamples);
  t.true(all.length > 55);
  t.log(listed(all));
  for (const compared of all) t.true(isWithin(compared), listed([compared]));
});

/** o200k_base has a sixth of the tokens of cl100k_base in some scripts, so no estimate is near both. */
test('real text is at most 3 times too high against each vocabulary, unless the other makes about as many', (t) => {
  const texts = { ...ordinaryTexts, ...scriptSamples };
  for (const { kind, modern, older } of compareAll(texts)) {
    const estimate = estimateTokens(texts[kind] ?? '');
    const most = Math.max(3 * Math.min(modern, older), 1.1 * Math.max(modern, older));
    t.true(estimate <= most, `${kind}: ${estimate} for ${modern} and ${older}`);
  }
});

const scripts = [
  ...['Latin', 'Cyrillic', 'Greek', 'Armenian', 'Hebrew', 'Arabic', 'Syriac', 'Thaana', 'Nko', 'Devanagari'],
  ...['Bengali', 'Gurmukhi', 'Gujarati', 'Oriya', 'Tamil', 'Telugu', 'Kannada', 'Malayalam', 'Sinhala', 'Thai'],
  ...['Lao', 'Tibetan', 'Myanmar', 'Georgian', 'Hangul', 'Ethiopic', 'Cherokee', 'Canadian_Aboriginal', 'Khmer'],
  ...['Mongolian', 'Hiragana', 'Katakana', 'Bopomofo', 'Han', 'Yi', 'Tifinagh', 'Vai', 'Javanese', 'Balinese'],
  ...['Adlam', 'Gothic', 'Cuneiform', 'Braille'],
];

const letters = Array.from({ length: 0x1_f000 }, (_, point) => String.fromCodePoint(point)).join('');
const samples = Object.values(scriptSamples).join('').toLowerCase();

/** The letters of a script: all of them, and those in the samples, by frequency. */
function lettersOf(script: string): { all: string[]; used: string[] } {
  const isLetter = new RegExp(`\\p{Script=${script}}`, 'gu');
  const counts = new Map<string, number>();
  for (const letter of samples.match(isLetter) ?? []) counts.set(letter, (counts.get(letter) ?? 0) + 1);
  const used = [...counts].sort(([, one], [, other]) => other - one).map(([letter]) => letter);
  return { all: letters.match(isLetter) ?? [], used };
}

for (const script of scripts) {
  test(`random letters are at most 1.3 times too low and 3 times too high: ${script}`, (t) => {
    const random = seededRandom(5);
    const unbroken = (letters: readonly string[]) => Array.from({ length: 300 }, () => random.oneOf(letters)).join('');
    const inWords = (letters: readonly string[], longest: number) =>
      unbroken(letters).replaceAll(new RegExp(`(.{1,${longest}})`, 'gsu'), (word) =>
        random() < 0.5 ? `${word} ` : word.replace(/^(.)/su, '$1 '),
      );
    const { all, used } = lettersOf(script);
    const sets = { all, used, 'the 30 most frequent': used.slice(0, 30), 'the 12 most frequent': used.slice(0, 12) };
    for (const [kind, letters] of Object.entries(sets)) {
      if (letters.length < 5) continue;
      const texts = { unbroken: unbroken(letters), words: inWords(letters, 8), 'short words': inWords(letters, 2) };
      for (const compared of compareAll(texts)) t.true(isWithin(compared), `${kind}, ${listed([compared])}`);
    }
  });
}

test('hostile text is at most 1.3 times too low and 3 times too high', (t) => {
  const all = compareAll(hostileTexts());
  t.true(all.length > 150);
  t.log(listed(all.filter(({ error }) => error < 0)));
  for (const compared of all) t.true(isWithin(compared), listed([compared]));
});

test('random code points of any block are at most 1.3 times too low and 3 times too high', (t) => {
  const random = seededRandom(9);
  const size = 0x80;
  for (let first = 0; first < 0x2_0000; first += first < 0x3400 || first > 0xd7ff ? size : 16 * size) {
    const points = Array.from({ length: size }, (_, index) => String.fromCodePoint(first + index));
    const assigned = points.filter((point) => !/[\p{Cn}\p{Cs}]/u.test(point));
    if (assigned.length < 8) continue;
    const text = Array.from({ length: 300 }, () => random.oneOf(assigned)).join('');
    const compared = compare(first.toString(16), text);
    t.true(isWithin(compared), listed([compared]));
  }
});

test('one repeated character is at most 1.3 times too low and 3 times too high, give or take a token', (t) => {
  const ascii = Array.from({ length: 0x7e }, (_, index) => String.fromCharCode(index + 1));
  for (const character of [...ascii, ...'—…─éжا中한\u00a0']) {
    for (const times of [2, 3, 4, 5, 7, 9, 13, 16, 31, 47, 64, 79, 127, 600]) {
      const text = character.repeat(times);
      const counted = Math.max(count(o200k, text), count(cl100k, text));
      const estimate = estimateTokens(text);
      const kind = `${JSON.stringify(character)} × ${times}: ${estimate} for ${counted}`;
      t.true(estimate >= (counted - 1) / 1.3 && estimate <= 3 * counted + 1, kind);
    }
  }
});

test('the letters with a low cost are those that are one token in cl100k_base', (t) => {
  for (let unit = 0x80; unit < 0x1_0000; unit++) {
    // The halves of surrogate pairs have no token.
    if (unit >= 0xd800 && unit < 0xe000) continue;
    const letter = String.fromCharCode(unit);
    const isOneToken = cl100k.countTokens(letter, { disallowedSpecial: new Set<string>() }) === 1;
    if ((costs[unit] ?? 0) <= 100 !== isOneToken) t.fail(`${letter} ${unit.toString(16)}: ${costs[unit]}`);
  }
  t.pass();
});

test('no text has more tokens than bytes', (t) => {
  const short = ['', 'a', '1', ' ', '\n', '.', 'é', '中', '🎉', '\ud800', '\0', 'ab', '1 ', ' 1', '한글'];
  for (const text of [...Object.values({ ...ordinaryTexts, ...hostileTexts() }), ...short]) {
    t.true(estimateTokens(text) <= Buffer.byteLength(text), JSON.stringify(text.slice(0, 40)));
    t.true(text === '' || estimateTokens(text) > 0, JSON.stringify(text.slice(0, 40)));
  }
  t.is(estimateTokens(''), 0);
});

test('an estimate grows with the text, and the estimates of two halves add up to about the total', (t) => {
  for (const [kind, text] of Object.entries(ordinaryTexts)) {
    const half = text.length >> 1;
    const [first, second] = [estimateTokens(text.slice(0, half)), estimateTokens(text.slice(half))];
    const whole = estimateTokens(text);
    t.true(first < whole && second < whole, kind);
    t.true(Math.abs(first + second - whole) <= 3, `${kind}: ${first} + ${second} for ${whole}`);
  }
});

test('the boundaries of the pieces in which a text is read do not affect the estimate', (t) => {
  for (const repeated of ['hello world ', '😀', 'ab1 ', 'привет, 12345\n', 'éE', '. . ']) {
    for (const before of ['', 'x', 'xy ']) {
      const tokens = [1, 2, 3].map((times) => estimateTokens(before + repeated.repeat(times * 20_000)));
      const [first = 0, second = 0, third = 0] = tokens;
      t.true(Math.abs(third - second - (second - first)) <= 1, JSON.stringify(before + repeated));
    }
  }
});

test('a long text is estimated by samples like the sum of its parts, however costly and cheap text alternate', (t) => {
  const random = seededRandom(7);
  const costly = () => Array.from({ length: 40 }, () => String.fromCharCode(0x4e00 + random() * 5_000)).join('');
  const cheap = ' '.repeat(400);
  const of = (next: () => string) => {
    let text = '';
    while (text.length < 4_000_000) text += next();
    return text;
  };
  const all = Object.values(ordinaryTexts).join('\n');
  const texts: Record<string, string> = {
    'ordinary text': of(() => all),
    'half of each, in two pieces': of(() => cheap).slice(0, 2_000_000) + of(costly).slice(0, 2_000_000),
    'pieces of a thousand': of(() => (random() < 0.5 ? cheap.repeat(3) : costly().repeat(25))),
    'a tenth of costly text': of(() => (random() < 0.53 ? costly() : cheap)),
    'escaped line feeds': of(() => 'word\\n'),
  };
  for (const [kind, text] of Object.entries(texts)) {
    let whole = 0;
    for (let from = 0; from < text.length; from += 1_000_000)
      whole += estimateTokens(text.slice(from, from + 1_000_000));
    const share = estimateTokens(text) / whole;
    t.true(share > 0.85 && share < 1.15, `${kind}: ${share}`);
  }
});
