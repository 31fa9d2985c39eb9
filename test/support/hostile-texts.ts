/** Texts unlike the training data of tokenizers, the same at each call: random data, and text that only machines write. */
export function hostileTexts(): Record<string, string> {
  const pick = createPicker();
  const run = (letters: string, length = 600) => Array.from({ length }, () => pick([...letters])).join('');
  const words = (letters: string, length = 6) => Array.from({ length: 80 }, () => run(letters, length)).join(' ');
  return {
    ...randomAscii(run, words),
    ...randomLetters(run, words),
    ...rareCodePoints(run),
    ...whiteSpace(run),
    ...repeated(),
  };
}

type Run = (letters: string, length?: number) => string;

const digits = '0123456789';
const lower = 'abcdefghijklmnopqrstuvwxyz';
const letters = lower + lower.toUpperCase();
const signs = '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~';

function randomAscii(run: Run, words: Run): Record<string, string> {
  const uuid = () => [8, 4, 4, 4, 12].map((length) => run('0123456789abcdef', length)).join('-');
  return {
    digits: run(digits),
    numbers: words(digits, 5),
    base64: run(`${letters}${digits}+/`),
    'base64url identifiers': words(`${letters}${digits}-_`, 22),
    hex: run('0123456789abcdef'),
    'hex, capitals': run('0123456789ABCDEF'),
    UUIDs: Array.from({ length: 20 }, uuid).join('\n'),
    'letters, in words': words(lower),
    'letters, unbroken': run(lower),
    'capitals, in words': words(lower.toUpperCase()),
    'both cases, in words': words(letters),
    'single letters': words(lower, 1),
    signs: run(signs),
    'signs, in groups of three': words(signs, 3),
    'signs, one by one': words(signs, 1),
    'any printable characters': run(`${letters}${digits}${signs} `),
    'letters and signs alternating': alternate(run, lower, signs),
    'letters and digits alternating': alternate(run, lower, digits),
  };
}

function randomLetters(run: Run, words: Run): Record<string, string> {
  return {
    'random Latin with marks': words('àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ'),
    'random Latin, some with marks': words(`àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ${lower}`),
    'random Polish marks': words('ąęćłńóśźż'),
    'random Cyrillic': words(range(0x430, 0x44f)),
    'random Greek': words(range(0x3b1, 0x3c9)),
    'random Hebrew': words(range(0x5d0, 0x5ea)),
    'random Arabic': words(range(0x627, 0x64a)),
    'random Devanagari': words(range(0x905, 0x94d)),
    'random Tamil': words(range(0xb95, 0xbb9)),
    'random Thai': run(range(0xe01, 0xe2e)),
    'random kana': run(range(0x3041, 0x3093) + range(0x30a1, 0x30f3)),
    'random Hangul': run(range(0xac00, 0xd7a3)),
    'random Han': run(range(0x4e00, 0x9fa5)),
    'random Georgian': words(range(0x10d0, 0x10f0)),
    'random Armenian': words(range(0x561, 0x586)),
    'random Ethiopic': words(range(0x1200, 0x1240)),
    'random Tibetan': words(range(0xf40, 0xf60)),
    'random Syriac': words(range(0x710, 0x72c)),
  };
}

function rareCodePoints(run: Run): Record<string, string> {
  return {
    'CJK extension A': run(range(0x3400, 0x4db5), 200),
    'CJK extension B': run(range(0x20000, 0x20500), 200),
    'musical symbols': run(range(0x1d100, 0x1d126), 200),
    'mathematical letters': run(range(0x1d400, 0x1d454), 200),
    'private use': run(range(0xe000, 0xe400), 200),
    'private planes': run(range(0x100000, 0x100400), 200),
    'combining marks': alternate(run, lower, range(0x300, 0x36f)),
    pictures: run(range(0x1f300, 0x1f5ff), 200),
    'newer emoji': run(range(0x1f900, 0x1f9ff), 200),
    'joined emoji': '👩‍👩‍👧‍👦🏳️‍🌈👨🏽‍💻🤷🏿‍♀️'.repeat(20),
    flags: run(range(0x1f1e6, 0x1f1ff), 200),
    'arrows and operators': run(range(0x2190, 0x22ff), 200),
    'box drawing': run(range(0x2500, 0x257f), 200),
    'control characters': run(range(0x00, 0x1f), 400),
    'half surrogates': '\ud800 \udc00\ud801'.repeat(50),
    'the lower planes': run(range(0x20, 0x2fff)),
  };
}

function whiteSpace(run: Run): Record<string, string> {
  return {
    'spaces in a row': ' '.repeat(3_000),
    'lines in a row': '\n'.repeat(3_000),
    'tabs in a row': '\t'.repeat(3_000),
    'CR LF in a row': '\r\n'.repeat(1_000),
    'random white space': run(' \n\t\r'),
    'unusual spaces': run(range(0x2000, 0x200a), 300),
    'indented empty lines': ' \n'.repeat(500),
  };
}

/** Each printable ASCII character and one of each other script, and pairs of them, repeated. */
function repeated(): Record<string, string> {
  const ones = [...range(0x21, 0x7e), ...'éжあ中한🎉…—ا\u093c𠀀\u00a0\u200b\0'];
  const pairs = ['aA', 'xq', 'a ', 'a\n', '. ', '1a', '1 ', '1.', 'a.', '()', '":"', '{}', '\\"', '中a', 'жa'];
  return Object.fromEntries([...ones, ...pairs].map((text) => [`${JSON.stringify(text)} repeated`, text.repeat(600)]));
}

function alternate(run: Run, first: string, second: string): string {
  return Array.from({ length: 300 }, () => run(first, 1) + run(second, 1)).join('');
}

function range(from: number, to: number): string {
  return Array.from({ length: to - from + 1 }, (_, index) => String.fromCodePoint(from + index)).join('');
}

/** A linear congruential generator (Numerical Recipes): random enough here, and the same on every machine. */
function createPicker(): (items: readonly string[]) => string {
  let state = 1;
  return (items) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return items[Math.floor((state / 2 ** 32) * items.length)] ?? '';
  };
}
