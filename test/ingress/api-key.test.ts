import { createHmac } from 'node:crypto';
import { crc32 } from 'node:zlib';
import test from 'ava';
import fc from 'fast-check';
import { displayPart, hashKey, isWellFormedKey, keyPrefix, makeKey, maskKey } from '../../ingress/api-key.ts';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** Computed apart, by Python's zlib: the CRC-32 of the first 36 characters is 745821753, in base62 0oTOJ7. */
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

test('of 10,000 typing errors of one character none is taken for a key', (t) => {
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

test('two neighbours swapped, a character lost or doubled, and garbage are no keys', (t) => {
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

test('what is stored is HMAC-SHA-256 under the pepper, in hexadecimal', (t) => {
  // RFC 4231, test case 2.
  t.is(
    hashKey('what do ya want for nothing?', 'Jefe'),
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  );
  const key = makeKey();
  t.is(hashKey(key, 'a'), createHmac('sha256', 'a').update(key).digest('hex'));
  t.not(hashKey(key, 'a'), hashKey(key, 'b'));
});

test('what is shown is the first ten characters, masked with four stars', (t) => {
  t.is(displayPart(known), 'svc_012345');
  t.is(maskKey(known), 'svc_012345****');
  t.is(maskKey(displayPart(known)), maskKey(known));
});

test('every character of the alphabet comes up as often as any other', (t) => {
  const counts = new Map<string, number>();
  const keys = 20_000;
  for (let index = 0; index < keys; index++) {
    for (const character of makeKey().slice(4, 36)) counts.set(character, (counts.get(character) ?? 0) + 1);
  }
  t.deepEqual([...counts.keys()].sort().join(''), [...alphabet].sort().join(''));
  // With 61 degrees of freedom a value above 140 comes by chance less than once in ten million times.
  const expected = (keys * 32) / 62;
  const chiSquared = [...counts.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  t.true(chiSquared < 140, String(chiSquared));
});
