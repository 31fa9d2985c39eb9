import { createHmac, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { ulid } from 'ulid';
import type { NewKey } from '../../shared/store/records/key.ts';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const randomLength = 32;
/** 256 bits in base62. */
const digestLength = 43;
const checksumLength = 6;
const pattern = /^svc_[0-9A-Za-z]{38}$/;
const maskedPattern = /^svc_[0-9A-Za-z]{6}\*{4}$/;

export const keyPrefix = 'svc_';

/** Makes a new key: `svc_`, 32 random base62 characters (190 bits), and the checksum of both (contract.md#c1-form-of-a-key). */
export function makeKey(): string {
  const start = keyPrefix + randomBase62(randomLength);
  return start + checksum(start);
}

/** Makes a key, and what the store keeps of it: its hash under the first pepper. */
export function newKey([pepper = '']: readonly string[], createdAt: Date): { key: string; stored: NewKey } {
  const key = makeKey();
  return { key, stored: { id: `key_${ulid()}`, hash: hashKey(key, pepper), display: displayPart(key), createdAt } };
}

/**
 * Derives a key from a text and a secret, always the same one; other keys cannot be guessed from it. Uses the first 32 characters of the
 * HMAC-SHA-256 of the text in base62.
 */
export function deriveKey(text: string, secret: string): string {
  const digest = createHmac('sha256', secret).update(text).digest('hex');
  const start = keyPrefix + toBase62(BigInt(`0x${digest}`), digestLength).slice(0, randomLength);
  return start + checksum(start);
}

/** Whether the text has the form of a key: detects typos and garbage without I/O (decisions.md#a-checksum-in-the-key). */
export function isWellFormedKey(key: string): boolean {
  return pattern.test(key) && checksum(key.slice(0, -checksumLength)) === key.slice(-checksumLength);
}

/**
 * The value that is stored and looked up instead of the key: HMAC-SHA-256 under the pepper, in hexadecimal (contract.md#c2-keys-at-rest,
 * decisions.md#hmac-of-keys).
 */
export function hashKey(key: string, pepper: string): string {
  return createHmac('sha256', pepper).update(key).digest('hex');
}

/** Identifies a secret without revealing it or a key derived from it: no device id contains a NUL. */
export function fingerprint(secret: string): string {
  return createHmac('sha256', secret).update('\0fingerprint').digest('hex').slice(0, 16);
}

/** The first ten characters, the only part of a key that is stored in plain text. */
export function displayPart(key: string): string {
  return key.slice(0, keyPrefix.length + 6);
}

/** `svc_` and six characters, then `****` (contract.md#c3-masked-form); takes a key or its first ten characters. */
export function maskKey(key: string): string {
  return `${displayPart(key)}****`;
}

/** Whether this is a result of `maskKey`. */
export function isMaskedKey(text: string): boolean {
  return maskedPattern.test(text);
}

/** CRC-32 in base62, padded to six. */
function checksum(text: string): string {
  return toBase62(BigInt(crc32(text)), checksumLength);
}

/** Most significant digit first. */
function toBase62(value: bigint, length: number): string {
  let rest = value;
  let digits = '';
  for (let index = 0; index < length; index++) {
    digits = alphabet.charAt(Number(rest % 62n)) + digits;
    rest /= 62n;
  }
  return digits;
}

/** Discards bytes of 248 and above: 62 does not divide 256, so the first characters would be more frequent. */
function randomBase62(length: number): string {
  let text = '';
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < 248 && text.length < length) text += alphabet.charAt(byte % 62);
    }
  }
  return text;
}
