import { createHmac } from 'node:crypto';
import { crc32 } from 'node:zlib';
import test from 'ava';
import fc from 'fast-check';
import {
  deriveKey,
  displayPart,
  fingerprint,
  hashKey,
  isMaskedKey,
  isWellFormedKey,
  keyPrefix,
  makeKey,
  maskKey,
} from '../../../ingress/authentication/api-key.ts';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** Computed separately with Python's zlib: the CRC-32 of the first 36 characters is 745821753, in base62 0oTOJ7. */
const known = 'svc_0123456789ABCDEFGHIJKLMNOPQRSTUV0oTOJ7';

test('a key is svc_, 32 random base62 characters and a checksum of six', (t) => {
  const keys = Array.from({ length: 1_000 }, makeKey);
  for (const key of keys) {
    t.regex(key, /^svc_[0-9A-Za-z]{38}$/);
    t.true(isWellFormedKey(key));
  }
  t.is(new Set(keys).size, 1_000);
});

test('the checksum is CRC-32 in base62, most significant digit first', (t) => {
  t.true(isWellFormedKey(known));
  const body = known.slice(0, -6);
  const value = [...known.slice(-6)].reduce((sum, digit) => sum * 62 + alphabet.indexOf(digit), 0);
  t.is(value, crc32(body));
});

test('none of 10,000 one-character typos is accepted as a key', (t) => {
  const character = fc.constantFrom(...alphabet);
  const typos = fc.tuple(fc.nat(37), character, fc.integer({ min: 0, max: 1_000_000 }));
  const keys = Array.from({ length: 100 }, makeKey);
  let tried = 0;
  fc.assert(
    fc.property(typos, ([place, typed, which]) => {
      const key = keys[which % keys.length] ?? '';
      const index = keyPrefix.length + place;
      if (key[index] === typed) return;
      tried++;
      t.false(isWellFormedKey(key.slice(0, index) + typed + key.slice(index + 1)));
    }),
    { numRuns: 11_000 },
  );
  t.true(tried > 10_000);
});

test('swapped, lost or doubled characters and garbage are not keys', (t) => {
  for (const key of Array.from({ length: 200 }, makeKey)) {
    for (let index = keyPrefix.length; index < key.length - 1; index++) {
      const [one, other] = [key[index], key[index + 1]];
      if (one !== other) t.false(isWellFormedKey(key.slice(0, index) + other + one + key.slice(index + 2)));
    }
    t.false(isWellFormedKey(key.slice(0, -1)));
    t.false(isWellFormedKey(key + key.at(-1)));
    for (const wrong of [key.replace('svc_', 'svc-'), key.replace('svc_', 'SVC_'), ` ${key}`, `${key}\n`, `${key} `]) {
      t.false(isWellFormedKey(wrong), JSON.stringify(wrong));
    }
  }
  for (const garbage of ['', 'svc_', maskKey(makeKey()), `svc_${'0'.repeat(38)}`, `svc_${'é'.repeat(38)}`]) {
    t.false(isWellFormedKey(garbage), garbage);
  }
});

test('the stored hash is HMAC-SHA-256 under the pepper, in hexadecimal', (t) => {
  // RFC 4231, test case 2.
  t.is(
    hashKey('what do ya want for nothing?', 'Jefe'),
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  );
  const key = makeKey();
  t.is(hashKey(key, 'a'), createHmac('sha256', 'a').update(key).digest('hex'));
  t.not(hashKey(key, 'a'), hashKey(key, 'b'));
});

test('a masked key is its first ten characters and four stars', (t) => {
  t.is(displayPart(known), 'svc_012345');
  t.is(maskKey(known), 'svc_012345****');
  t.is(maskKey(displayPart(known)), maskKey(known));
});

test('a text is a masked key only if it is exactly svc_, six base62 characters and four stars', (t) => {
  for (const key of Array.from({ length: 100 }, makeKey)) t.true(isMaskedKey(maskKey(key)));
  t.true(isMaskedKey('svc_012345****'));
  const wrong = [
    '',
    '****',
    'svc_****',
    'svc_012345',
    'svc_012345***',
    'svc_012345*****',
    'svc_01234****',
    'svc_0123456****',
    'svc_01234-****',
    'svc_01234é****',
    'SVC_012345****',
    ' svc_012345****',
    'svc_012345****\n',
    known,
  ];
  for (const text of wrong) t.false(isMaskedKey(text), JSON.stringify(text));
});

test('a derived key is the same for the same text and secret, and different if either differs', (t) => {
  const text = fc.string({ unit: 'binary', maxLength: 300 });
  fc.assert(
    fc.property(
      text,
      text,
      fc.string({ minLength: 32 }),
      fc.string({ minLength: 32 }),
      (one, another, first, second) => {
        const key = deriveKey(one, first);
        t.true(isWellFormedKey(key));
        t.is(deriveKey(one, first), key);
        if (!sameBytes(one, another)) t.not(deriveKey(another, first), key);
        if (!sameBytes(first, second)) t.not(deriveKey(one, second), key);
      },
    ),
    { numRuns: 300 },
  );
});

/** All lone surrogates have the same bytes in UTF-8. HMAC pads a key with zeros. */
function sameBytes(one: string, another: string): boolean {
  const bytesOf = (text: string) =>
    Buffer.from(text)
      .toString('hex')
      .replace(/(00)*$/, '');
  return bytesOf(one) === bytesOf(another);
}

test('a derived key is the first 32 base62 digits of HMAC-SHA-256, padded to 43, and the checksum', (t) => {
  // RFC 4231, test case 2, converted to base62 as one number.
  const digest = 0x5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843n;
  const digits: string[] = [];
  for (let rest = digest; rest > 0n; rest /= 62n) digits.unshift(alphabet[Number(rest % 62n)] ?? '');
  const body = `svc_${digits.join('').padStart(43, '0').slice(0, 32)}`;
  t.is(deriveKey('what do ya want for nothing?', 'Jefe').slice(0, 36), body);
  t.is(deriveKey('what do ya want for nothing?', 'Jefe'), 'svc_LmZKuOs3b8SdeAFpygjhvpt7ugisOsww2rASli');
});

test('a derived key reveals nothing of its text: keys of similar texts are as different as any two', (t) => {
  const keys = Array.from({ length: 1_000 }, (_, index) => deriveKey(`device-${index}`, 'a secret of an operator'));
  t.is(new Set(keys).size, 1_000);
  let alike = 0;
  for (const [index, key] of keys.slice(1).entries()) {
    for (let place = 5; place < 36; place++) if (key[place] === keys[index]?.[place]) alike++;
  }
  // 999 pairs of 31 characters, each equal by chance in 1 of 62: 500 expected, with a deviation of 22.
  t.true(alike > 350 && alike < 650, String(alike));
});

test('the fingerprint of a secret is 16 unique hexadecimal characters, and not a part of it', (t) => {
  const secrets = Array.from({ length: 500 }, (_, index) => createHmac('sha256', 'x').update(`${index}`).digest('hex'));
  const fingerprints = secrets.map(fingerprint);
  t.is(new Set(fingerprints).size, secrets.length);
  for (const [index, name] of fingerprints.entries()) {
    t.regex(name, /^[0-9a-f]{16}$/);
    t.is(fingerprint(secrets[index] ?? ''), name);
    for (let place = 0; place <= 8; place++) t.false(secrets[index]?.includes(name.slice(place, place + 8)));
  }
});

const characters = [
  { title: 'random', make: makeKey, first: 4 },
  // 62 to the 43rd is a little more than 2 to the 256th: the first digit of a derived key never goes up to z.
  { title: 'derived', make: (index: number) => deriveKey(`device-${index}`, 'a secret of an operator'), first: 5 },
];

for (const { title, make, first } of characters) {
  test(`in a ${title} key all characters of the alphabet are equally frequent`, (t) => {
    const counts = new Map<string, number>();
    const keys = 20_000;
    for (let index = 0; index < keys; index++) {
      for (const character of make(index).slice(first, 36)) counts.set(character, (counts.get(character) ?? 0) + 1);
    }
    t.deepEqual([...counts.keys()].sort().join(''), [...alphabet].sort().join(''));
    // With 61 degrees of freedom, a value above 140 occurs by chance less than once in ten million runs.
    const expected = (keys * (36 - first)) / 62;
    const chiSquared = [...counts.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    t.true(chiSquared < 140, String(chiSquared));
  });
}
