import type { Reply } from '../../shared/jobs/replies.ts';

/** Where a request stands: the run that is followed, the next sequence number of it, and whether text went out. */
export type Progress = { run: number; nextSequence: number; delivered: boolean };

export const notStarted: Progress = { run: 0, nextSequence: 0, delivered: false };

/**
 * What to do with a reply. `accept` it; `ignore` it (an older run, or an entry seen before); `gap`, something before it
 * was lost; `interrupted`, another worker has begun anew although text of an earlier run went out, and the two must not
 * be mixed.
 */
export type Step = { outcome: 'accept'; progress: Progress } | { outcome: 'ignore' | 'gap' | 'interrupted' };

/** Follows the highest run that has been seen, in the order of its sequence, each entry once. */
export function followReply(
  progress: Progress,
  { run, sequence, kind }: Pick<Reply, 'run' | 'sequence' | 'kind'>,
): Step {
  if (run < progress.run) return { outcome: 'ignore' };
  if (run > progress.run && progress.delivered) return { outcome: 'interrupted' };
  const expected = run > progress.run ? 0 : progress.nextSequence;
  if (sequence < expected) return { outcome: 'ignore' };
  if (sequence > expected) return { outcome: 'gap' };
  const delivered = progress.delivered || kind === 'chunk';
  return { outcome: 'accept', progress: { run, nextSequence: sequence + 1, delivered } };
}
