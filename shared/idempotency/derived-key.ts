import { createHash, hkdfSync } from 'node:crypto';

/** Whom a kept answer belongs to. */
export type ClaimOwner = { account: string; idempotencyKey: string };

const keyBytes = 32;

/**
 * Derives a key from a pepper for one use (HKDF with SHA-256, RFC 5869). No account and no idempotency key contains a NUL, so no two owners
 * have the same text. The text is hashed, because it can be longer than the 1,024 bytes that Node accepts.
 */
export function derivedKey(pepper: string, use: 'answer' | 'body' | 'pepper', owner?: ClaimOwner): Buffer {
  const { account, idempotencyKey } = owner ?? { account: '', idempotencyKey: '' };
  const info = createHash('sha256').update(['idempotency', use, account, idempotencyKey].join('\0')).digest();
  return Buffer.from(hkdfSync('sha256', pepper, '', info, keyBytes));
}
