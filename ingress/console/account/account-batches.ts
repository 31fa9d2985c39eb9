import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { OperatorBatch } from '../../routes/present-batch.ts';
import { BatchProgress } from '../batches/batch-progress.ts';
import { batchState, canBeCancelled } from '../batches/batch-words.ts';
import { ShortId } from '../controls/short-id.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { formatTime } from '../page/format.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { foundLink } from '../page/route.ts';
import type { NewestItems } from '../page/use-newest.ts';
import { Panel } from '../panels/panel.ts';
import { CancelBatchDialog } from './end-dialogs.ts';

type Props = {
  account: string;
  batches: NewestItems<OperatorBatch>;
  onAsk: () => void;
  cancel: (batch: OperatorBatch, reason: string) => Promise<void>;
};

/** The last batches of an account. Those that run can be cancelled. */
export function AccountBatches({ account, batches, onAsk, cancel }: Props) {
  const [asked, ask] = useState<OperatorBatch>();
  const open = (batch: OperatorBatch) => {
    onAsk();
    ask(batch);
  };
  return h(
    Panel,
    { title: 'Batches' },
    h(LoadedView<NonNullable<typeof batches.value>>, {
      loaded: batches,
      what: 'its batches',
      children: ({ data, has_more }) =>
        data.length === 0
          ? h('p', { class: 'quiet' }, 'It has no batches.')
          : [
              h(
                'ul',
                { class: 'rows' },
                data.map((batch) => h('li', { key: batch.id }, h(BatchRow, { batch, ask: () => open(batch) }))),
              ),
              has_more &&
                h(
                  'div',
                  { class: 'actions' },
                  h('button', { type: 'button', onClick: batches.showMore }, 'Show more batches'),
                ),
            ],
    }),
    asked !== undefined &&
      h(CancelBatchDialog, {
        account,
        batch: asked,
        run: (reason) => cancel(asked, reason),
        close: () => ask(undefined),
      }),
  );
}

function BatchRow({ batch, ask }: { batch: OperatorBatch; ask: () => void }) {
  const title = batch.input_filename;
  return h(
    'div',
    { class: 'batch with-action' },
    h(
      'div',
      null,
      h('a', { class: 'batch-title', href: foundLink(batch.id) }, title),
      h('div', { class: 'quiet' }, h(ShortId, { id: batch.id, what: 'batch ID' }), ` ${formatTime(batch.created_at)}`),
    ),
    h(StateBadge, batchState(batch)),
    h(BatchProgress, { batch }),
    canBeCancelled(batch) &&
      h(
        'button',
        {
          type: 'button',
          class: 'danger',
          'aria-label': `Cancel ${title} of ${formatTime(batch.created_at)}`,
          onClick: ask,
        },
        'Cancel',
      ),
  );
}
