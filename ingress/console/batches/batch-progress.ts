import { h } from 'preact';
import type { Batch } from '../../routes/present-batch.ts';
import { isUncounted, progressWords } from './batch-words.ts';

type Props = { batch: Pick<Batch, 'status' | 'request_counts' | 'error_counts' | 'input_filename'> };

/** The number of finished lines as a bar and as text; the bar has no value while the lines are not counted yet. */
export function BatchProgress({ batch }: Props) {
  const { total, completed, failed } = batch.request_counts;
  const words = progressWords(batch);
  if (words === '') return h('span', { class: 'progress' });
  return h(
    'span',
    { class: 'progress' },
    h('progress', {
      'aria-label': `Finished lines of ${batch.input_filename}`,
      ...(!isUncounted(batch) && { max: total, value: completed + failed }),
    }),
    h('span', null, words),
  );
}
