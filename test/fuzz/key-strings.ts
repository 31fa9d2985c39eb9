import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { deriveKey, isMaskedKey, isWellFormedKey, keyPrefix, maskKey } from '../../ingress/authentication/api-key.ts';
import { invalidKey, invalidToken } from '../../ingress/authentication/authorization.ts';
import { authenticateKey } from '../../ingress/middleware/authenticate.ts';
import type { ApiError } from '../../shared/errors.ts';
import { declaredError } from './declared-error.ts';
import { fakeContext } from './fake-request.ts';
import { fuzzPlan } from './fuzz-plan.ts';
import { type FuzzTarget, require } from './search/fuzz-target.ts';

const planFile = fuzzPlan();

const peppers = ['a pepper of the fuzzing', 'an older pepper'];
/** The only existing key. It is in the seeds, too. */
const key = deriveKey('fuzz', 'a key of the fuzzing');
const hashOf = (pepper: string) => createHmac('sha256', pepper).update(key, 'latin1').digest('hex');
const caller = { account: 'user:alice', plan: 'free', suspended: false, version: 0, overageEnabled: false };

const authenticate = authenticateKey({
  callers: {
    knows: () => false,
    async find(credential) {
      require('hashes' in credential, 'a key is looked up without hashes');
      const { hashes } = credential;
      require(hashes.length === peppers.length &&
        hashes.every((hash) => /^[0-9a-f]{64}$/.test(hash)), 'its hashes are wrong');
      if (hashes.join() !== peppers.map(hashOf).join()) throw invalidKey();
      return caller;
    },
  },
  limitAuthFailures: (_network, find) => find(),
  peppers,
  signIn: {
    async identify() {
      throw invalidToken();
    },
    async check() {},
  },
});

const base62 = fc.constantFrom(...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz');
const nearKeys = fc
  .tuple(fc.nat(key.length - 1), base62)
  .map(([at, character]) => key.slice(0, at) + character + key.slice(at + 1));
const otherKeys = fc.string().map((text) => deriveKey(text, 'another secret'));

/** Values of the header `Authorization`, as Node passes them: a byte is a character. */
export const keyStrings: FuzzTarget = {
  promise:
    'only the exact key is accepted, anything else is a declared 401, and checksums agree with another implementation',
  words: [
    key,
    'svc_',
    'Bearer ',
    'bearer',
    'Basic ',
    ' ',
    '\t',
    '=',
    '==',
    '.',
    ',',
    '0',
    'Z',
    'z',
    '\0',
    '\u00a0',
    '****',
    key.slice(4),
  ],
  structured: fc.oneof(nearKeys, otherKeys).map((text) => Buffer.from(`Bearer ${text}`)),
  async check(input) {
    const value = input.toString('latin1');
    for (const text of [value, value.replace(/^Bearer +/i, '')]) checkForm(text);
    const ctx = fakeContext({ authorization: value }, [], {
      planFile,
      requestId: 'req_1',
      address: '192.0.2.1',
    });
    const isKey = new RegExp(`^bearer +${key} *$`, 'i').test(value) && value.includes(key);
    try {
      await authenticate(ctx, async () => {});
    } catch (error) {
      require(!isKey, 'the key was rejected');
      const code = declaredError(error, ['NO_AUTH', 'INVALID_KEY', 'INVALID_TOKEN']);
      const secret = value.trim().slice(-20);
      require(secret.length < 20 || !(error as ApiError).message.includes(secret), 'the message repeats the value');
      return code;
    }
    require(isKey, 'something else was accepted as the key');
    return 'accepted';
  },
};

function checkForm(text: string): void {
  require(isWellFormedKey(text) === isKeyByItsText(text), 'the other implementation of the checksum disagrees');
  if (!isWellFormedKey(text)) return;
  const masked = maskKey(text);
  require(isMaskedKey(masked) &&
    !isWellFormedKey(masked) &&
    text.startsWith(masked.slice(0, 10)), 'its masked form is wrong');
}

/** `svc_`, 32 characters, and their CRC-32 in base62: computed bit by bit, as defined. */
function isKeyByItsText(text: string): boolean {
  if (text.length !== 42 || !text.startsWith(keyPrefix) || /[^0-9A-Za-z]/.test(text.slice(4))) return false;
  let crc = 0xffffffff;
  for (const character of text.slice(0, 36)) {
    crc ^= character.charCodeAt(0);
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  let rest = (crc ^ 0xffffffff) >>> 0;
  let digits = '';
  for (; digits.length < 6; rest = Math.floor(rest / 62)) {
    const digit = rest % 62;
    digits = String.fromCharCode(digit < 10 ? 48 + digit : digit < 36 ? 55 + digit : 61 + digit) + digits;
  }
  return digits === text.slice(36);
}
