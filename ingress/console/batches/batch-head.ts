import { h } from 'preact';
import type { Batch } from '../../api/response-schemas.ts';
import { formatCount } from '../page/format.ts';

type Props = { batch: Pick<Batch, 'id' | 'status' | 'request_counts'> };

/** Which batch it is, and how far. */
export function BatchHead({ batch }: Props) {
  const { id, status } = batch;
  return [
    h('h3', null, h('code', null, id), ' ', h('span', { class: `state ${status}` }, status.replace('_', ' '))),
    h(BatchProgress, { batch }),
  ];
}

/** How many lines are done, as a bar and in words; a bar without a value while the lines are not counted yet. */
function BatchProgress({ batch }: Props) {
  const { total, completed, failed } = batch.request_counts;
  const done = completed + failed;
  const isValidating = batch.status === 'validating' || (batch.status === 'cancelling' && total === 0);
  if (batch.status === 'failed' || (total === 0 && !isValidating)) return null;
  return h(
    'div',
    { class: 'progress' },
    h('progress', {
      'aria-label': `Lines done of ${batch.id}`,
      ...(!isValidating && { max: total, value: done }),
    }),
    h(
      'span',
      null,
      isValidating
        ? 'checking its lines'
        : `${formatCount(done)} of ${formatCount(total)} lines${failed > 0 ? `, ${formatCount(failed)} failed` : ''}`,
    ),
  );
}
