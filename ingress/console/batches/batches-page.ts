import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Model } from '../../routes/models.ts';
import type { Batch } from '../../routes/present-batch.ts';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';
import { useLoaded, useNewest, usePolled } from '../api/use-loaded.ts';
import { ConfirmDialog, DownloadButton, saveFile, useDoing } from '../page/actions.ts';
import { batchLink } from '../page/console-route.ts';
import { formatCount } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { ShortId } from '../page/identifiers.ts';
import { Failure, LoadedView, NewestView } from '../page/loaded-view.ts';
import { BatchDetail, BatchProgress, BatchSummary } from './batch-detail.ts';
import { batchState, canBeCancelled, failedLines, isMoving, unrunLines } from './batch-words.ts';
import { sampleFile } from './file-estimate.ts';
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
      lines: 6,
      empty: ['You have no batches yet. ', h(SampleButton, { api })],
      children: (batches) =>
        h(
          'ul',
          { class: 'rows card' },
          batches.map((batch) => h('li', { key: batch.id }, h(BatchSummary, { batch }))),
        ),
    }),
  ];
}

/** A file to begin with. */
function SampleButton({ api }: { api: Api }) {
  const doing = useDoing(async () => {
    const { data } = await api.call<{ data: Model[] }>('/v1/models');
    const text = sampleFile(data);
    if (text === undefined) throw noChatModel();
    saveFile(new Blob([text], { type: 'application/jsonl' }), 'sample.jsonl');
  });
  return [
    h('button', { type: 'button', 'aria-disabled': doing.busy, onClick: doing.run }, 'Download a sample file'),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  ];
}

function noChatModel(): ApiFailure {
  return new ApiFailure('Your plan has no chat model.', { code: 'no chat model', status: 0 });
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
      lines: 6,
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
  const isOver = !isMoving(batch) && failed !== null;
  return h(
    'div',
    { class: 'actions' },
    output &&
      h(DownloadButton, { api, path: contentOf(output), name: `${id}-output.jsonl`, label: 'Download results' }),
    failed &&
      h(DownloadButton, { api, path: contentOf(failed), name: `${id}-errors.jsonl`, label: 'Download failed lines' }),
    isOver && failedLines(batch) > 0 && h(RetryButton, { api, batch, lines: 'failed' }),
    isOver && unrunLines(batch) > 0 && h(RetryButton, { api, batch, lines: 'unfinished' }),
    canBeCancelled(batch) && h('button', { type: 'button', class: 'danger', onClick: cancel }, 'Cancel'),
  );
}

type RetryProps = { api: Api; batch: Batch; lines: 'failed' | 'unfinished' };

/** Makes a batch of these lines, and goes to its page. */
function RetryButton({ api, batch, lines }: RetryProps) {
  const doing = useDoing(async () => {
    const path = `/v1/batches/${batch.id}/retry`;
    const created = await api.call<Batch>(path, { method: 'POST', body: { lines } });
    window.location.hash = batchLink(created.id);
  });
  const words =
    lines === 'failed'
      ? `Run the failed lines again (${formatCount(failedLines(batch))})`
      : `Run the other lines (${formatCount(unrunLines(batch))})`;
  return [
    h('button', { type: 'button', 'aria-disabled': doing.busy, onClick: doing.run }, words),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  ];
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
