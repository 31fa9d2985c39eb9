import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Batch } from '../../openapi/answers.ts';
import type { Api } from '../api/api.ts';
import { Failure } from '../page/failure.ts';
import { formatCount, formatTime } from '../page/format.ts';
import { Table } from '../page/table.ts';
import { BatchProgress } from './batch-progress.ts';
import { save } from './save-file.ts';

type Fault = NonNullable<Batch['errors']>['data'][number];

const canBeCancelled = new Set(['validating', 'in_progress']);

/** One batch: how far it is, what can be done about it, and what is wrong with its file. */
export function BatchCard({ api, batch, cancel }: { api: Api; batch: Batch; cancel: () => void }) {
  const { id, status, errors, output_file_id: output, error_file_id: failed, created_at } = batch;
  return h(
    'li',
    { class: 'card', 'data-batch': id },
    h('h3', null, h('code', null, id), ' ', h('span', { class: `state ${status}` }, status.replace('_', ' '))),
    h(BatchProgress, { batch }),
    h('p', { class: 'quiet' }, `Handed in ${formatTime(created_at)} · ${endOf(batch)}`),
    h(
      'div',
      { class: 'actions' },
      output && h(Download, { api, file: output, name: `${id}-output.jsonl`, label: 'Download results' }),
      failed && h(Download, { api, file: failed, name: `${id}-errors.jsonl`, label: 'Download failed lines' }),
      canBeCancelled.has(status) && h('button', { type: 'button', class: 'danger', onClick: cancel }, 'Cancel'),
    ),
    errors && h(Faults, { faults: errors.data }),
  );
}

function endOf({ expires_at, completed_at, failed_at, expired_at, cancelled_at }: Batch): string {
  const endedAt = completed_at ?? failed_at ?? expired_at ?? cancelled_at;
  return endedAt === null ? `ends by ${formatTime(expires_at)}` : `ended ${formatTime(endedAt)}`;
}

function Faults({ faults }: { faults: readonly Fault[] }) {
  return h(
    'details',
    { open: true },
    h('summary', null, `${formatCount(faults.length)} faults in the file: nothing of it was run or charged`),
    h(Table<Fault>, {
      caption: 'Faults by line',
      rows: faults,
      rowKey: ({ line, code, param }) => `${line} ${code} ${param}`,
      columns: [
        { title: 'Line', cell: ({ line }) => line ?? 'the whole file' },
        { title: 'Field', cell: ({ param }) => (param === null ? '–' : h('code', null, param)) },
        { title: 'What is wrong', cell: ({ message }) => message, holds: 'text' },
        { title: 'Code', cell: ({ code }) => h('code', null, code) },
      ],
    }),
  );
}

function Download({ api, file, name, label }: { api: Api; file: string; name: string; label: string }) {
  const [state, setState] = useState<{ busy: boolean; error?: unknown }>({ busy: false });

  async function fetchIt(): Promise<void> {
    setState({ busy: true });
    try {
      save(await api.download(`/v1/files/${file}/content`), name);
      setState({ busy: false });
    } catch (error) {
      setState({ busy: false, error });
    }
  }

  return [
    h('button', { type: 'button', disabled: state.busy, onClick: () => void fetchIt() }, label),
    state.error !== undefined && h(Failure, { error: state.error }),
  ];
}
