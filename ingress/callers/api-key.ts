import { createHmac, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const randomLength = 32;
/** 256 bits in base62. */
const digestLength = 43;
const checksumLength = 6;
const pattern = /^svc_[0-9A-Za-z]{38}$/;
const maskedPattern = /^svc_[0-9A-Za-z]{6}\*{4}$/;

export const keyPrefix = 'svc_';

/** A fresh key: `svc_`, 32 random base62 characters (190 bits), and the checksum over all of that. */
export function makeKey(): string {
  const body = keyPrefix + randomBase62(randomLength);
  return body + checksum(body);
}

/**
 * The key that follows from a text and a secret: the same for both, each time, and of no use to guess another by. Of the
 * HMAC-SHA-256 of the text, in base62, the first 32 characters.
 */
export function deriveKey(text: string, secret: string): string {
  const digest = createHmac('sha256', secret).update(text).digest('hex');
  const body = keyPrefix + toBase62(BigInt(`0x${digest}`), digestLength).slice(0, randomLength);
  return body + checksum(body);
}

/** Whether this can be a key at all: a typing error or garbage is found here, with no I/O. */
export function isWellFormedKey(key: string): boolean {
  return pattern.test(key) && checksum(key.slice(0, -checksumLength)) === key.slice(-checksumLength);
}

/** What is stored and looked up in place of the key: HMAC-SHA-256 under the pepper, in hexadecimal. */
export function hashKey(key: string, pepper: string): string {
  return createHmac('sha256', pepper).update(key).digest('hex');
}

/** Names a secret without telling anything of it, or of a key that is derived from it: no device id holds a NUL. */
export function fingerprint(secret: string): string {
  return createHmac('sha256', secret).update('\0fingerprint').digest('hex').slice(0, 16);
}

/** The first ten characters, all of a key that is kept in the clear. */
export function displayPart(key: string): string {
  return key.slice(0, keyPrefix.length + 6);
}

/** `svc_` and six characters, then `****`; takes a key or what is kept of one. */
export function maskKey(key: string): string {
  return `${displayPart(key)}****`;
}

/** Whether this is what `maskKey` makes of a key. */
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
