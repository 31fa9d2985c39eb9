import { h } from 'preact';
import type { Batch } from '../../routes/present-batch.ts';
import type { Api } from '../api/api.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { usePolled } from '../page/use-loaded.ts';
import { useNewest } from '../page/use-newest.ts';
import { BatchSummary } from './batch-summary.ts';
import { isMoving } from './batch-words.ts';
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
    h(LoadedView<NonNullable<typeof loaded.value>>, {
      loaded,
      what: 'your batches',
      children: ({ data, has_more }) => [
        data.length === 0
          ? h('p', { class: 'empty' }, 'You have no batches yet.')
          : h(
              'ul',
              { class: 'rows card' },
              data.map((batch) => h('li', { key: batch.id }, h(BatchSummary, { batch }))),
            ),
        has_more && h('button', { type: 'button', onClick: loaded.showMore }, 'Show more'),
      ],
    }),
  ];
}
