import { partitionCount } from './keys.ts';

/** A usage event usually takes 700 bytes, and more after many attempts. */
const entryBytes = 1_024;
const entriesMax = 100_000;

/**
 * Returns how many usage events may wait in each partition's outbox (contract.md#n10-outbox). All of them together take a quarter of
 * Redis's memory, because a Redis without free memory refuses everything. `set` is the operator's own bound, which is used unchanged.
 */
export function outboxLengthFor(set: number | undefined, memoryBytes: number): number {
  if (set !== undefined) return set;
  if (memoryBytes === 0) return entriesMax;
  return Math.max(1, Math.min(entriesMax, Math.floor(memoryBytes / 4 / partitionCount / entryBytes)));
}
