import { createHash } from 'node:crypto';
import { encodeTime } from 'ulid';

const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'; // Crockford's base 32, as ULID has it

/** The id that one line of a batch has in its results: `batch_req_<26 characters>`, always the same one. */
export function resultIdOf(batch: string, line: number): string {
  return `batch_req_${derived(batch, String(line))}`;
}

/** The request id of a line's nth request: `req_<26 characters>-<n>`. Its job, its lease and its usage record are named so. */
export function requestIdOf(batch: string, line: number, number: number): string {
  return `req_${derived(batch, String(line))}-${number}`;
}

/** The id of a batch's output or error file, always the same one. */
export function resultFileOf(batch: string, kind: 'output' | 'error'): string {
  return `file-${derived(batch, kind)}`;
}

/** 26 characters of the ULID form, with the time of the batch's own, so that ids sort by when it was handed in. */
function derived(batch: string, name: string): string {
  const time = /^batch_([0-9A-Z]{10})/.exec(batch)?.[1] ?? encodeTime(0);
  const digest = createHash('sha256').update(`${batch} ${name}`).digest();
  const rest = Array.from({ length: 16 }, (_, index) => alphabet[(digest[index] ?? 0) % 32]).join('');
  return time + rest;
}
