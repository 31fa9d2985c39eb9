import type { Reply } from '../../shared/jobs/replies.ts';

/** The progress of a reply: the run that is followed, its next sequence number, and whether text or a piece was delivered. */
export type Progress = { run: number; nextSequence: number; delivered: boolean };

export const notStarted: Progress = { run: 0, nextSequence: 0, delivered: false };

/**
 * What to do with a reply. `accept` it; `ignore` it (an older run, or a duplicate); `gap`: an earlier reply was lost; `interrupted`:
 * another worker has restarted the request although text of an earlier run was delivered, and texts of two runs must not be mixed.
 */
export type Step = { outcome: 'accept'; progress: Progress } | { outcome: 'ignore' | 'gap' | 'interrupted' };

/**
 * Decides on a reply. Follows the highest run seen so far, in the order of its sequence numbers, each of them once
 * (contract.md#p3-order-and-gaps, contract.md#p4-highest-run).
 */
export function followReply(
  progress: Progress,
  { run, sequence, kind }: Pick<Reply, 'run' | 'sequence' | 'kind'>,
): Step {
  if (run < progress.run) return { outcome: 'ignore' };
  if (run > progress.run && progress.delivered) return { outcome: 'interrupted' };
  const expected = run > progress.run ? 0 : progress.nextSequence;
  if (sequence < expected) return { outcome: 'ignore' };
  if (sequence > expected) return { outcome: 'gap' };
  const delivered = progress.delivered || kind === 'chunk' || kind === 'piece';
  return { outcome: 'accept', progress: { run, nextSequence: sequence + 1, delivered } };
}
