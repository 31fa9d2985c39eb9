import { partitionCount } from './keys.ts';

/** A usage event takes 650 bytes as a rule, and more after many attempts. */
const entryBytes = 1_024;
const entriesMax = 100_000;

/**
 * Usage events that may wait for the store in each partition: so many that all of them take a quarter of Redis's memory, because a
 * Redis without memory refuses everything. `set` is the operator's own bound, which holds as it is.
 */
export function outboxLengthFor(set: number | undefined, memoryBytes: number): number {
  if (set !== undefined) return set;
  if (memoryBytes === 0) return entriesMax;
  return Math.max(1, Math.min(entriesMax, Math.floor(memoryBytes / 4 / partitionCount / entryBytes)));
}
