import { createHash } from 'node:crypto';
import { encodeTime } from 'ulid';

const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'; // Crockford's base 32, as in ULIDs

/** Returns the id of a line in the results of its batch: `batch_req_<26 characters>`, always the same. */
export function resultIdOf(batch: string, line: number): string {
  return `batch_req_${derivedId(batch, String(line))}`;
}

/** 26 characters in the form of a ULID, with the time of the batch's id, so that ids sort by submission. */
export function derivedId(batch: string, name: string): string {
  const time = /^batch_([0-9A-Z]{10})/.exec(batch)?.[1] ?? encodeTime(0);
  const digest = createHash('sha256').update(`${batch} ${name}`).digest();
  const rest = Array.from({ length: 16 }, (_, index) => alphabet[(digest[index] ?? 0) % 32]).join('');
  return time + rest;
}
