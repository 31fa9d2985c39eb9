import type { StoredFile } from '../../shared/batches/batch.ts';

/** OpenAI's file object; times are in seconds. */
export function presentFile({ id, bytes, createdAt, expiresAt, filename, purpose }: StoredFile) {
  return {
    id,
    object: 'file',
    bytes,
    created_at: secondsOf(createdAt),
    expires_at: secondsOf(expiresAt),
    filename,
    purpose,
    status: 'processed',
  };
}

export function secondsOf(date: Date): number {
  return Math.floor(date.getTime() / 1000);
}
