import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Batch } from '../../routes/present-batch.ts';
import type { Api } from '../api/api.ts';
import { useLoaded, useNewest, usePolled } from '../api/use-loaded.ts';
import { ConfirmDialog, DownloadButton } from '../page/actions.ts';
import { StateBadge } from '../page/icons.ts';
import { ShortId } from '../page/identifiers.ts';
import { LoadedView, NewestView } from '../page/loaded-view.ts';
import { BatchDetail, BatchProgress, BatchSummary } from './batch-detail.ts';
import { batchState, canBeCancelled, isMoving } from './batch-words.ts';
import { UploadForm } from './upload-form.ts';

const lookEveryMs = 1_500;

/** Create batches, and watch their progress. */
export function BatchesPage({ api }: { api: Api }) {
  const loaded = useNewest<Batch>(api, '/v1/batches');
  const isActive = loaded.value?.data.some(isMoving) ?? false;
  usePolled(loaded, { everyMs: lookEveryMs, active: isActive });

  return [
    h('h1', { tabIndex: -1 }, 'Batches'),
    h(UploadForm, { api }),
    h('h2', null, 'Your batches'),
    h(NewestView<Batch>, {
      newest: loaded,
      what: 'your batches',
      empty: 'You have no batches yet.',
      children: (batches) =>
        h(
          'ul',
          { class: 'rows card' },
          batches.map((batch) => h('li', { key: batch.id }, h(BatchSummary, { batch }))),
        ),
    }),
  ];
}

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
