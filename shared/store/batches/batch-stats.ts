import type { BatchState } from '../../batches/batch.ts';
import { batchStates } from '../../batches/batch.ts';
import { isOver } from '../../batches/batch-states.ts';
import type { BatchStats } from './batch-store.ts';

/** The states of batches that are not over. */
export const unfinishedStates: readonly BatchState[] = batchStates.filter((state) => !isOver({ state }));

/** The states in which lines wait to run, or for their file to be validated. */
const waitingStates: readonly BatchState[] = ['validating', 'in_progress'];

/** The open batches of one state: their number, their tokens, and when the first of them was created. */
export type StateGroup = { state: BatchState; count: number; tokens: number; oldestAt: Date };

export function batchStatsOf(groups: readonly StateGroup[]): BatchStats {
  const waiting = groups.filter(({ state }) => waitingStates.includes(state));
  const oldestAt = waiting.map((group) => group.oldestAt).sort((one, other) => Number(one) - Number(other))[0];
  const tokens = waiting.reduce((sum, group) => sum + group.tokens, 0);
  return { count: Object.fromEntries(groups.map(({ state, count }) => [state, count])), oldestAt, tokens };
}
