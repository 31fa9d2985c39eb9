import { createHash } from 'node:crypto';
import { encodeTime } from 'ulid';

const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'; // Crockford's base 32, as in ULIDs

/** Returns the id of a line in the results of its batch: `batch_req_<26 characters>`, always the same. */
export function resultIdOf(batch: string, line: number): string {
  return `batch_req_${derived(batch, String(line))}`;
}

/**
 * Returns the id of a line's nth request: `req_<26 characters>-<n>`. It names its job, its lease and its usage record
 * (contract.md#u4-requests-of-a-line).
 */
export function requestIdOf(batch: string, line: number, number: number): string {
  return `req_${derived(batch, String(line))}-${number}`;
}

/** Returns the id of a batch's output or error file, always the same. */
export function resultFileOf(batch: string, kind: 'output' | 'error'): string {
  return `file-${derived(batch, kind)}`;
}

/** 26 characters in the form of a ULID, with the time of the batch's id, so that ids sort by submission. */
function derived(batch: string, name: string): string {
  const time = /^batch_([0-9A-Z]{10})/.exec(batch)?.[1] ?? encodeTime(0);
  const digest = createHash('sha256').update(`${batch} ${name}`).digest();
  const rest = Array.from({ length: 16 }, (_, index) => alphabet[(digest[index] ?? 0) % 32]).join('');
  return time + rest;
}
