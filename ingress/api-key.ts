import { createHmac, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const randomLength = 32;
const checksumLength = 6;
const pattern = /^svc_[0-9A-Za-z]{38}$/;

export const keyPrefix = 'svc_';

/** A fresh key: `svc_`, 32 random base62 characters (190 bits), and the checksum over all of that (API C1). */
export function makeKey(): string {
  const body = keyPrefix + randomBase62(randomLength);
  return body + checksum(body);
}

/** Whether this can be a key at all: a typing error or garbage is found here, with no I/O. */
export function isWellFormedKey(key: string): boolean {
  return pattern.test(key) && checksum(key.slice(0, -checksumLength)) === key.slice(-checksumLength);
}

/** What is stored and looked up in place of the key: HMAC-SHA-256 under the pepper, in hexadecimal (API C2). */
export function hashKey(key: string, pepper: string): string {
  return createHmac('sha256', pepper).update(key).digest('hex');
}

/** The first ten characters, all of a key that is kept in the clear. */
export function displayPart(key: string): string {
  return key.slice(0, keyPrefix.length + 6);
}

/** `svc_` and six characters, then `****` (API C3); takes a key or what is kept of one. */
export function maskKey(key: string): string {
  return `${displayPart(key)}****`;
}

/** CRC-32 in base62, most significant digit first, padded to six. */
function checksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let index = 0; index < checksumLength; index++) {
    digits = alphabet.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

/** Bytes of 248 and above are thrown away: 62 does not divide 256, and the first characters would come up more often. */
function randomBase62(length: number): string {
  let text = '';
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < 248 && text.length < length) text += alphabet.charAt(byte % 62);
    }
  }
  return text;
}
