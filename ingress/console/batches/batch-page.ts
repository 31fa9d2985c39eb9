import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Batch } from '../../routes/present-batch.ts';
import type { Api } from '../api/api.ts';
import { DownloadButton } from '../controls/download-button.ts';
import { ShortId } from '../controls/short-id.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded, usePolled } from '../page/use-loaded.ts';
import { BatchDetail } from './batch-detail.ts';
import { BatchProgress } from './batch-progress.ts';
import { batchState, canBeCancelled, isMoving } from './batch-words.ts';
import { CancelDialog } from './cancel-dialog.ts';

const lookEveryMs = 1_500;

/** One batch of the account: its progress, its results, and what it took. */
export function BatchPage({ api, id }: { api: Api; id: string }) {
  const [isAsking, setAsking] = useState(false);
  const path = `/v1/batches/${encodeURIComponent(id)}`;
  const loaded = useLoaded((signal) => api.call<Batch>(path, { signal }), [id]);
  const { value } = loaded;
  usePolled(loaded, { everyMs: lookEveryMs, active: value !== undefined && isMoving(value) });

  async function cancel(): Promise<void> {
    await api.call(`${path}/cancel`, { method: 'POST' });
    loaded.reload();
  }

  return [
    h('p', { class: 'crumb' }, h('a', { href: '#batches' }, 'Batches')),
    h(
      'h1',
      { tabIndex: -1 },
      value === undefined ? id : value.input_filename,
      value && [' ', h(StateBadge, batchState(value))],
    ),
    value && h('p', { class: 'quiet' }, h(ShortId, { id, what: 'batch ID' })),
    h(LoadedView<Batch>, {
      loaded,
      what: 'the batch',
      children: (batch) => [
        h('p', { class: 'wide-progress' }, h(BatchProgress, { batch })),
        h(Actions, { api, batch, cancel: () => setAsking(true) }),
        h(BatchDetail, { batch }),
      ],
    }),
    isAsking && h(CancelDialog, { run: cancel, close: () => setAsking(false) }),
  ];
}

function Actions({ api, batch, cancel }: { api: Api; batch: Batch; cancel: () => void }) {
  const { id, output_file_id: output, error_file_id: failed } = batch;
  return h(
    'div',
    { class: 'actions' },
    output &&
      h(DownloadButton, { api, path: contentOf(output), name: `${id}-output.jsonl`, label: 'Download results' }),
    failed &&
      h(DownloadButton, { api, path: contentOf(failed), name: `${id}-errors.jsonl`, label: 'Download failed lines' }),
    canBeCancelled(batch) && h('button', { type: 'button', class: 'danger', onClick: cancel }, 'Cancel'),
  );
}

function contentOf(file: string): string {
  return `/v1/files/${file}/content`;
}
