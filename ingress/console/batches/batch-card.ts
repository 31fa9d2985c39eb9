import { h } from 'preact';
import type { Batch } from '../../api/response-schemas.ts';
import type { Api } from '../api/api.ts';
import { DownloadButton } from '../controls/download-button.ts';
import { Table } from '../controls/table.ts';
import { formatCount, formatTime } from '../page/format.ts';
import { BatchHead } from './batch-head.ts';

type BatchError = NonNullable<Batch['errors']>['data'][number];

const errorsShownMax = 100;
const canBeCancelled = new Set(['validating', 'in_progress']);

/** One batch: its progress, the available actions, and the errors in its file. */
export function BatchCard({ api, batch, cancel }: { api: Api; batch: Batch; cancel: () => void }) {
  const { id, status, errors, output_file_id: output, error_file_id: failed, created_at } = batch;
  return h(
    'li',
    { class: 'card', 'data-batch': id },
    h(BatchHead, { batch }),
    h('p', { class: 'quiet' }, `Created ${formatTime(created_at)} · ${endOf(batch)}`),
    h(
      'div',
      { class: 'actions' },
      output &&
        h(DownloadButton, { api, path: contentOf(output), name: `${id}-output.jsonl`, label: 'Download results' }),
      failed &&
        h(DownloadButton, { api, path: contentOf(failed), name: `${id}-errors.jsonl`, label: 'Download failed lines' }),
      canBeCancelled.has(status) && h('button', { type: 'button', class: 'danger', onClick: cancel }, 'Cancel'),
    ),
    errors && h(BatchErrors, { found: errors.data }),
  );
}

function endOf({ expires_at, completed_at, failed_at, expired_at, cancelled_at }: Batch): string {
  const endedAt = completed_at ?? failed_at ?? expired_at ?? cancelled_at;
  return endedAt === null ? `expires ${formatTime(expires_at)}` : `ended ${formatTime(endedAt)}`;
}

/** The API returns at most the first hundred. */
function countOf({ length }: readonly BatchError[]): string {
  if (length === errorsShownMax) return `The first ${length} errors`;
  return length === 1 ? '1 error' : `${formatCount(length)} errors`;
}

function BatchErrors({ found }: { found: readonly BatchError[] }) {
  return h(
    'details',
    { open: true },
    h('summary', null, `${countOf(found)} in the file: no line was run or charged`),
    h(Table<BatchError>, {
      caption: 'Errors by line',
      rows: found,
      rowKey: ({ line, code, param }) => `${line} ${code} ${param}`,
      columns: [
        { title: 'Line', cell: ({ line }) => line ?? 'all lines' },
        { title: 'Field', cell: ({ param }) => (param === null ? '–' : h('code', null, param)) },
        { title: 'Error', cell: ({ message }) => message, holds: 'text' },
        { title: 'Code', cell: ({ code }) => h('code', null, code) },
      ],
    }),
  );
}

function contentOf(file: string): string {
  return `/v1/files/${file}/content`;
}
