import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Batch } from '../../openapi/answers.ts';
import type { Api } from '../api/api.ts';
import { ConfirmDialog } from '../page/confirm-dialog.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded, useRepeated } from '../page/use-loaded.ts';
import { BatchCard } from './batch-card.ts';
import { UploadForm } from './upload-form.ts';

type Page = { data: Batch[]; has_more: boolean };

const pageSize = 20;
/** The most that the API gives at once. */
const callSizeMax = 100;
const lookEveryMs = 1_500;
const lookAfterFailureMs = 10_000;
const moving = new Set(['validating', 'in_progress', 'finalizing', 'cancelling']);

/** Hand in a file, watch how it goes, cancel it, fetch what came of it. */
export function BatchesPage({ api }: { api: Api }) {
  const [wanted, setWanted] = useState(pageSize);
  const [asking, setAsking] = useState<string>();
  const loaded = useLoaded((signal) => newest(api, wanted, signal), []);
  const isMoving = loaded.value?.data.some(({ status }) => moving.has(status)) ?? false;
  const everyMs = loaded.error === undefined ? lookEveryMs : lookAfterFailureMs;
  useRepeated(loaded.reload, { everyMs, active: isMoving && !loaded.loading });

  async function cancel(id: string): Promise<void> {
    await api.call(`/v1/batches/${id}/cancel`, { method: 'POST' });
    loaded.reload();
  }

  const close = () => setAsking(undefined);
  const showMore = () => {
    setWanted(wanted + pageSize);
    loaded.reload();
  };
  return [
    h('h1', { tabIndex: -1 }, 'Batches'),
    h(UploadForm, { api, handedIn: loaded.reload }),
    h('h2', null, 'Your batches'),
    h(LoadedView<Page>, {
      loaded,
      what: 'your batches',
      children: ({ data, has_more }) => [
        data.length === 0 && h('p', { class: 'empty' }, 'You have handed in no batch yet.'),
        h(
          'ul',
          { class: 'cards' },
          data.map((batch) => h(BatchCard, { key: batch.id, api, batch, cancel: () => setAsking(batch.id) })),
        ),
        has_more && h('button', { type: 'button', onClick: showMore }, 'Show more'),
      ],
    }),
    asking && h(CancelDialog, { run: () => cancel(asking), close }),
  ];
}

/** So many of the account's batches, the newest first, in as many calls as that takes. */
async function newest(api: Api, wanted: number, signal: AbortSignal): Promise<Page> {
  const data: Batch[] = [];
  for (;;) {
    const query = new URLSearchParams({ limit: String(Math.min(callSizeMax, wanted - data.length)) });
    const last = data.at(-1);
    if (last !== undefined) query.set('after', last.id);
    const page = await api.call<Page>(`/v1/batches?${query}`, { signal });
    data.push(...page.data);
    if (!page.has_more || data.length >= wanted) return { data, has_more: page.has_more };
  }
}

function CancelDialog({ run, close }: { run: () => Promise<void>; close: () => void }) {
  return h(
    ConfirmDialog,
    { title: 'Cancel this batch?', action: 'Cancel the batch', isDangerous: true, run, close },
    h(
      'p',
      null,
      'Lines that have not run yet end as batch_cancelled, and cost nothing. What is done stays, is charged, and can be fetched.',
    ),
  );
}
