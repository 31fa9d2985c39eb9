import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { OperatorBatch } from '../../routes/present-batch.ts';
import { CancelBatchDialog } from '../account/end-dialogs.ts';
import type { Api } from '../api/api.ts';
import { BatchDetail } from '../batches/batch-detail.ts';
import { BatchProgress } from '../batches/batch-progress.ts';
import { batchState, canBeCancelled, isMoving } from '../batches/batch-words.ts';
import { ShortId } from '../controls/short-id.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { accountLink } from '../page/route.ts';
import { useLoaded, usePolled } from '../page/use-loaded.ts';

const lookEveryMs = 1_500;

/** A batch of any account. One that runs can be cancelled. */
export function AnyBatchPage({ api, id }: { api: Api; id: string }) {
  const [isAsking, setAsking] = useState(false);
  const path = `/admin/batches/${encodeURIComponent(id)}`;
  const loaded = useLoaded((signal) => api.call<OperatorBatch>(path, { signal }), [id]);
  const { value } = loaded;
  usePolled(loaded, { everyMs: lookEveryMs, active: value !== undefined && isMoving(value) });

  async function cancel(reason: string): Promise<void> {
    await api.call(`${path}/cancel`, { method: 'POST', body: reason === '' ? {} : { reason } });
    loaded.reload();
  }

  return [
    h('p', { class: 'crumb' }, h('a', { href: '#find' }, 'Find')),
    h(
      'h1',
      { tabIndex: -1 },
      value === undefined ? id : value.input_filename,
      value && [' ', h(StateBadge, batchState(value))],
    ),
    h('p', { class: 'quiet' }, h(ShortId, { id, what: 'batch ID' })),
    value && h('p', null, 'Account ', h('a', { href: accountLink(value.account) }, value.account)),
    h(LoadedView<OperatorBatch>, {
      loaded,
      what: 'the batch',
      children: (batch) => [
        h('p', { class: 'wide-progress' }, h(BatchProgress, { batch })),
        canBeCancelled(batch) &&
          h(
            'div',
            { class: 'actions' },
            h('button', { type: 'button', class: 'danger', onClick: () => setAsking(true) }, 'Cancel'),
          ),
        batch.status === 'failed' && h('p', null, 'Its file has errors, which its account sees: no line was run.'),
        h(BatchDetail, { batch }),
      ],
    }),
    isAsking &&
      value &&
      h(CancelBatchDialog, { account: value.account, batch: value, run: cancel, close: () => setAsking(false) }),
  ];
}
