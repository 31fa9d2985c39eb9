import type { Batch } from '../../routes/present-batch.ts';
import { formatCount } from '../page/format.ts';
import type { Tone } from '../page/icons.ts';

type CountedBatch = Pick<Batch, 'status' | 'request_counts'> & Partial<Pick<Batch, 'error_counts'>>;

const moving = new Set<Batch['status']>(['validating', 'in_progress', 'finalizing', 'cancelling']);

/** Whether the batch changes without the user. */
export function isMoving({ status }: Pick<Batch, 'status'>): boolean {
  return moving.has(status);
}

/** Whether it can be cancelled: its last lines have not been answered. */
export function canBeCancelled({ status }: Pick<Batch, 'status'>): boolean {
  return status === 'validating' || status === 'in_progress';
}

/** Whether its lines are not counted yet. */
export function isUncounted({ status, request_counts: { total } }: CountedBatch): boolean {
  return status === 'validating' || (status === 'cancelling' && total === 0);
}

const tones: Record<Batch['status'], Tone> = {
  validating: 'moving',
  in_progress: 'moving',
  finalizing: 'moving',
  cancelling: 'warning',
  failed: 'bad',
  completed: 'good',
  expired: 'warning',
  cancelled: 'neutral',
};

export function batchState({ status }: Pick<Batch, 'status'>): { state: string; tone: Tone } {
  return { state: status.replace('_', ' '), tone: tones[status] };
}

/** Codes of lines that did not run, with a word for what became of them. */
const notRun = { batch_cancelled: 'cancelled', batch_expired: 'expired' } as const;

/** `120 of 200 lines, 3 failed` while it runs; then `40 done · 157 cancelled · 3 failed`. Empty if no line was counted. */
export function progressWords(batch: CountedBatch): string {
  const { total, completed, failed } = batch.request_counts;
  if (isUncounted(batch)) return 'validating lines';
  if (total === 0) return '';
  if (isMoving(batch)) {
    const ended = `${formatCount(completed + failed)} of ${formatCount(total)} lines`;
    return failed > 0 ? `${ended}, ${formatCount(failed)} failed` : ended;
  }
  const counts = batch.error_counts ?? {};
  const others = Object.entries(notRun).map(([code, word]) => [counts[code] ?? 0, word] as const);
  const unrun = others.reduce((sum, [count]) => sum + count, 0);
  const parts = [[completed, 'done'] as const, ...others, [failed - unrun, 'failed'] as const];
  return parts
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${formatCount(count)} ${word}`)
    .join(' · ');
}

/** When it ended, in seconds since 1970; null while it has not. */
export function endedAt(batch: Pick<Batch, 'completed_at' | 'failed_at' | 'expired_at' | 'cancelled_at'>) {
  return batch.completed_at ?? batch.failed_at ?? batch.expired_at ?? batch.cancelled_at;
}
