import { hkdfSync } from 'node:crypto';

/** Whom a kept answer belongs to. */
export type ClaimOwner = { account: string; idempotencyKey: string };

const keyBytes = 32;

/**
 * Derives a key from a pepper for one use (HKDF with SHA-256, RFC 5869). No account and no idempotency key contains a NUL, so no two owners
 * have the same text.
 */
export function derivedKey(pepper: string, use: 'answer' | 'body' | 'pepper', owner?: ClaimOwner): Buffer {
  const { account, idempotencyKey } = owner ?? { account: '', idempotencyKey: '' };
  return Buffer.from(
    hkdfSync('sha256', pepper, '', ['idempotency', use, account, idempotencyKey].join('\0'), keyBytes),
  );
}
