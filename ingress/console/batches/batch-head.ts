import { h } from 'preact';
import type { Batch } from '../../api/response-schemas.ts';
import { formatCount } from '../page/format.ts';

type Props = { batch: Pick<Batch, 'id' | 'status' | 'request_counts'> };

/** The id, status and progress of a batch. */
export function BatchHead({ batch }: Props) {
  const { id, status } = batch;
  return [
    h('h3', null, h('code', null, id), ' ', h('span', { class: `state ${status}` }, status.replace('_', ' '))),
    h(BatchProgress, { batch }),
  ];
}

/** The number of finished lines as a bar and as text; the bar has no value while the lines are not counted yet. */
function BatchProgress({ batch }: Props) {
  const { total, completed, failed } = batch.request_counts;
  const done = completed + failed;
  const isValidating = batch.status === 'validating' || (batch.status === 'cancelling' && total === 0);
  if (batch.status === 'failed' || (total === 0 && !isValidating)) return null;
  return h(
    'div',
    { class: 'progress' },
    h('progress', {
      'aria-label': `Finished lines of ${batch.id}`,
      ...(!isValidating && { max: total, value: done }),
    }),
    h(
      'span',
      null,
      isValidating
        ? 'validating lines'
        : `${formatCount(done)} of ${formatCount(total)} lines${failed > 0 ? `, ${formatCount(failed)} failed` : ''}`,
    ),
  );
}
