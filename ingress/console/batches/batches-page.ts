import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Batch } from '../../api/response-schemas.ts';
import type { Api } from '../api/api.ts';
import { ConfirmDialog } from '../controls/confirm-dialog.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useRepeated } from '../page/use-loaded.ts';
import { useNewest } from '../page/use-newest.ts';
import { BatchCard } from './batch-card.ts';
import { UploadForm } from './upload-form.ts';

const lookEveryMs = 1_500;
const lookAfterFailureMs = 10_000;
const moving = new Set(['validating', 'in_progress', 'finalizing', 'cancelling']);

/** Create batches, watch their progress, cancel them, download results. */
export function BatchesPage({ api }: { api: Api }) {
  const [asking, setAsking] = useState<string>();
  const loaded = useNewest<Batch>(api, '/v1/batches');
  const isMoving = loaded.value?.data.some(({ status }) => moving.has(status)) ?? false;
  const everyMs = loaded.error === undefined ? lookEveryMs : lookAfterFailureMs;
  useRepeated(loaded.reload, { everyMs, active: isMoving && !loaded.loading });

  async function cancel(id: string): Promise<void> {
    await api.call(`/v1/batches/${id}/cancel`, { method: 'POST' });
    loaded.reload();
  }

  const close = () => setAsking(undefined);
  return [
    h('h1', { tabIndex: -1 }, 'Batches'),
    h(UploadForm, { api, created: loaded.reload }),
    h('h2', null, 'Your batches'),
    h(LoadedView<NonNullable<typeof loaded.value>>, {
      loaded,
      what: 'your batches',
      children: ({ data, has_more }) => [
        data.length === 0 && h('p', { class: 'empty' }, 'You have no batches yet.'),
        h(
          'ul',
          { class: 'cards' },
          data.map((batch) => h(BatchCard, { key: batch.id, api, batch, cancel: () => setAsking(batch.id) })),
        ),
        has_more && h('button', { type: 'button', onClick: loaded.showMore }, 'Show more'),
      ],
    }),
    asking && h(CancelDialog, { run: () => cancel(asking), close }),
  ];
}

function CancelDialog({ run, close }: { run: () => Promise<void>; close: () => void }) {
  return h(
    ConfirmDialog,
    { title: 'Cancel this batch?', action: 'Cancel the batch', isDangerous: true, run, close },
    h(
      'p',
      null,
      'Lines that have not run yet end as batch_cancelled and cost nothing. Lines that are done are charged, and their results can be downloaded.',
    ),
  );
}
