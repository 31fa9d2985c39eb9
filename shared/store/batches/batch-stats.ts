import type { BatchState } from '../../batches/batch.ts';
import { batchStates } from '../../batches/batch.ts';
import { isOver } from '../../batches/batch-states.ts';
import type { BatchStats } from './batch-store.ts';

/** Those of batches that their owners still wait for. */
export const unfinishedStates: readonly BatchState[] = batchStates.filter((state) => !isOver({ state }));

/** Those in which lines wait for their turn, or for their file to be looked through. */
const waitingStates: readonly BatchState[] = ['validating', 'in_progress'];

/** The open batches of one state: how many, their tokens, and when the first of them was handed in. */
export type StateGroup = { state: BatchState; count: number; tokens: number; oldestAt: Date };

export function batchStatsOf(groups: readonly StateGroup[]): BatchStats {
  const waiting = groups.filter(({ state }) => waitingStates.includes(state));
  const oldestAt = waiting.map((group) => group.oldestAt).sort((one, other) => Number(one) - Number(other))[0];
  const tokens = waiting.reduce((sum, group) => sum + group.tokens, 0);
  return { count: Object.fromEntries(groups.map(({ state, count }) => [state, count])), oldestAt, tokens };
}
