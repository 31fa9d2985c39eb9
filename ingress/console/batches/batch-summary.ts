import { h } from 'preact';
import type { Batch } from '../../routes/present-batch.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { formatTime } from '../page/format.ts';
import { batchLink } from '../page/route.ts';
import { BatchProgress } from './batch-progress.ts';
import { batchState, endedAt } from './batch-words.ts';

type Props = {
  batch: Batch;
  /** The page of the batch; its own page of the console if left out. */
  href?: string;
};

/** A batch in a list: its file, state, progress and times. */
export function BatchSummary({ batch, href = batchLink(batch.id) }: Props) {
  const ended = endedAt(batch);
  return h(
    'div',
    { class: 'batch', 'data-batch': batch.id },
    h('a', { class: 'batch-title', href }, batch.input_filename),
    h(StateBadge, batchState(batch)),
    h(BatchProgress, { batch }),
    h(
      'span',
      { class: 'quiet' },
      ended === null ? `created ${formatTime(batch.created_at)}` : `ended ${formatTime(ended)}`,
    ),
  );
}
