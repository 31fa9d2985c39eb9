import { h } from 'preact';
import type { Batch } from '../../routes/present-batch.ts';
import { batchLink } from '../page/console-route.ts';
import { formatCount, formatMs, formatTime } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { type Figure, Figures, Table } from '../page/table.ts';
import { batchState, endedAt, isUncounted, progressWords } from './batch-words.ts';

type Props = {
  batch: Batch;
  /** The page of the batch; its own page of the console if left out. */
  href?: string;
};

/** A batch in a list: its file, state, progress and times. */
export function BatchSummary({ batch, href = batchLink(batch.id) }: Props) {
  const ended = endedAt(batch);
  return h(
    'div',
    { class: 'batch', 'data-batch': batch.id },
    h('a', { class: 'batch-title', href }, batch.input_filename),
    h(StateBadge, batchState(batch)),
    h(BatchProgress, { batch }),
    h(
      'span',
      { class: 'quiet' },
      ended === null ? `created ${formatTime(batch.created_at)}` : `ended ${formatTime(ended)}`,
    ),
  );
}

type ProgressProps = { batch: Pick<Batch, 'status' | 'request_counts' | 'error_counts' | 'input_filename'> };

/** The number of finished lines as a bar and as text; the bar has no value while the lines are not counted yet. */
export function BatchProgress({ batch }: ProgressProps) {
  const { total, completed, failed } = batch.request_counts;
  const words = progressWords(batch);
  if (words === '') return h('span', { class: 'progress' });
  return h(
    'span',
    { class: 'progress' },
    h('progress', {
      'aria-label': `Finished lines of ${batch.input_filename}`,
      ...(!isUncounted(batch) && { max: total, value: completed + failed }),
    }),
    h('span', null, words),
  );
}

type BatchError = NonNullable<Batch['errors']>['data'][number];

const errorsShownMax = 100;

/** Operators do not see the errors of its file. */
type ShownBatch = Omit<Batch, 'errors' | 'metadata' | 'progress'> & Partial<Pick<Batch, 'errors'>>;

/** What a batch took: times, tokens, and the errors of its lines and of its file. */
export function BatchDetail({ batch }: { batch: ShownBatch }) {
  const { errors, error_counts: counts } = batch;
  return [
    h(Figures, { figures: figuresOf(batch) }),
    errors && h(FileErrors, { found: errors.data }),
    counts && Object.keys(counts).length > 0 && h(ErrorCounts, { counts }),
  ];
}

function figuresOf(batch: ShownBatch): Figure[] {
  const { usage, created_at: created, in_progress_at: started, expires_at: expires } = batch;
  const ended = endedAt(batch);
  const tokens = (count: number | undefined) => (count === undefined ? '–' : formatCount(count));
  return [
    ['Lines', formatCount(batch.request_counts.total)],
    ['Input tokens', tokens(usage?.input_tokens)],
    ['Output tokens', tokens(usage?.output_tokens)],
    ['Total tokens', tokens(usage?.total_tokens)],
    ['Duration', ended === null ? '–' : formatMs((ended - created) * 1_000)],
    ['Created', formatTime(created)],
    ['Started', started === null ? '–' : formatTime(started)],
    ended === null ? ['Expires', formatTime(expires)] : ['Ended', formatTime(ended)],
    ['Model', batch.model ?? (isKnown(batch) ? 'several' : '–')],
    ['Endpoint', batch.endpoint],
    ['Created with', batch.key_id ?? 'sign-in token'],
  ];
}

/** Whether its lines have been read. */
function isKnown({ in_progress_at: started }: ShownBatch): boolean {
  return started !== null;
}

function ErrorCounts({ counts }: { counts: Readonly<Record<string, number>> }) {
  const rows = Object.entries(counts).toSorted(([, one], [, other]) => other - one);
  return [
    h('h2', null, 'Failed lines'),
    h(Table<(typeof rows)[number]>, {
      caption: 'By the code of their error, or the status of their response',
      rows,
      rowKey: ([code]) => code,
      columns: [
        { title: 'Code', cell: ([code]) => h('code', null, code) },
        { title: 'Lines', holds: 'number', cell: ([, lines]) => formatCount(lines), sortBy: ([, lines]) => lines },
      ],
    }),
  ];
}

/** The API returns at most the first hundred. */
function countOf({ length }: readonly BatchError[]): string {
  if (length === errorsShownMax) return `The first ${length} errors`;
  return length === 1 ? '1 error' : `${formatCount(length)} errors`;
}

function FileErrors({ found }: { found: readonly BatchError[] }) {
  return [
    h('h2', null, `${countOf(found)} in the file: no line was run or charged`),
    h(Table<BatchError>, {
      caption: 'Errors by line',
      rows: found,
      rowKey: ({ line, code, param, message }) => `${line} ${code} ${param} ${message}`,
      columns: [
        { title: 'Line', cell: ({ line }) => line ?? 'all lines' },
        { title: 'Field', cell: ({ param }) => (param === null ? '–' : h('code', null, param)) },
        { title: 'Error', cell: ({ message }) => message, holds: 'text' },
        { title: 'Code', cell: ({ code }) => h('code', null, code) },
      ],
    }),
  ];
}
