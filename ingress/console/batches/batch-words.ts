import type { Batch } from '../../routes/present-batch.ts';
import { formatCount, formatRest } from '../page/format.ts';
import type { Tone } from '../page/icons.ts';

type Pace = Pick<NonNullable<Batch['progress']>, 'lines_per_second' | 'seconds_left'>;
type CountedBatch = Pick<Batch, 'status' | 'request_counts'> &
  Partial<Pick<Batch, 'error_counts'>> & { progress?: Pace | null };

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

/**
 * `120 of 200 lines, 3 failed · 12 lines/s · about 7 s left` while it runs; then `40 done · 157 cancelled · 3 failed`. Empty if no line was
 * counted.
 */
export function progressWords(batch: CountedBatch): string {
  const { total, completed, failed } = batch.request_counts;
  if (isUncounted(batch)) return 'validating lines';
  if (total === 0) return '';
  if (isMoving(batch)) {
    const ended = `${formatCount(completed + failed)} of ${formatCount(total)} lines`;
    const lines = failed > 0 ? `${ended}, ${formatCount(failed)} failed` : ended;
    return batch.status === 'in_progress' && batch.progress ? [lines, ...paceWords(batch.progress)].join(' · ') : lines;
  }
  const counts = batch.error_counts ?? {};
  const others = Object.entries(notRun).map(([code, word]) => [counts[code] ?? 0, word] as const);
  const parts = [[completed, 'done'] as const, ...others, [failedLines(batch), 'failed'] as const];
  return parts
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${formatCount(count)} ${word}`)
    .join(' · ');
}

/** `12 lines/s` and `about 13 s left`, as far as they are known. */
function paceWords({ lines_per_second: rate, seconds_left: left }: Pace): string[] {
  return [
    ...(rate === null ? [] : [rateWords(rate)]),
    ...(left === null || left === 0 ? [] : [`about ${formatRest(left * 1_000)} left`]),
  ];
}

/** In minutes if it is slow. */
function rateWords(rate: number): string {
  if (rate >= 10) return `${formatCount(Math.round(rate))} lines/s`;
  if (rate >= 1 || rate === 0) return `${Number(rate.toFixed(1))} lines/s`;
  return `${Number((rate * 60).toFixed(1))} lines/min`;
}

/** The lines of an ended batch that did not run to their end. */
export function unrunLines({ error_counts: counts }: CountedBatch): number {
  return Object.keys(notRun).reduce((sum, code) => sum + (counts?.[code] ?? 0), 0);
}

/** The lines of an ended batch that ended with an error. */
export function failedLines(batch: CountedBatch): number {
  return batch.request_counts.failed - unrunLines(batch);
}

/** When it ended, in seconds since 1970; null while it has not. */
export function endedAt(batch: Pick<Batch, 'completed_at' | 'failed_at' | 'expired_at' | 'cancelled_at'>) {
  return batch.completed_at ?? batch.failed_at ?? batch.expired_at ?? batch.cancelled_at;
}
