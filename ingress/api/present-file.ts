import type { StoredFile } from '../../shared/batches/batch.ts';

/** OpenAI's file object; times are in seconds. */
export function presentFile({ id, bytes, createdAt, expiresAt, filename, purpose, keyId = '' }: StoredFile) {
  return {
    id,
    object: 'file',
    bytes,
    created_at: secondsOf(createdAt),
    expires_at: secondsOf(expiresAt),
    filename,
    purpose,
    status: 'processed',
    key_id: shownKeyId(keyId),
  };
}

export function secondsOf(date: Date): number {
  return Math.floor(date.getTime() / 1000);
}

/** Null for a sign-in token, and for what was stored before the key was. */
export function shownKeyId(keyId: string): string | null {
  return keyId === '' ? null : keyId;
}
