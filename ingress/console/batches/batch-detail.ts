import { h } from 'preact';
import type { Batch } from '../../routes/present-batch.ts';
import { batchLink } from '../page/console-route.ts';
import { formatCost, formatCount, formatMs, formatTime } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { ShortId } from '../page/identifiers.ts';
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

type ProgressProps = { batch: Parameters<typeof progressWords>[0] & Pick<Batch, 'input_filename'> };

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
type ShownBatch = Omit<Batch, 'errors' | 'metadata' | 'progress'> &
  Partial<Pick<Batch, 'errors'>> & { progress: ShownProgress | null };
type Progress = NonNullable<Batch['progress']>;
type LineFailure = Pick<Progress['failures'][number], 'line' | 'code'> & Partial<Progress['failures'][number]>;
type ShownProgress = Omit<Progress, 'failures'> & { failures: readonly LineFailure[] };

/** What a batch took so far: times, tokens, cost, and the errors of its lines and of its file. */
export function BatchDetail({ batch }: { batch: ShownBatch }) {
  const { errors, progress } = batch;
  const counts = batch.error_counts ?? progress?.error_counts ?? {};
  return [
    h(Figures, { figures: figuresOf(batch) }),
    errors && h(FileErrors, { found: errors.data }),
    Object.keys(counts).length > 0 && h(ErrorCounts, { counts }),
    progress !== null && progress.failures.length > 0 && h(FirstFailures, { failures: progress.failures }),
  ];
}

function figuresOf(batch: ShownBatch): Figure[] {
  const { created_at: created, in_progress_at: started, expires_at: expires, progress, retry_of: retryOf } = batch;
  const usage = batch.usage ?? progress?.usage;
  const ended = endedAt(batch);
  const tokens = (count: number | undefined) => (count === undefined ? '–' : formatCount(count));
  return [
    ['Lines', formatCount(batch.request_counts.total)],
    ['Input tokens', tokens(usage?.input_tokens)],
    ['Output tokens', tokens(usage?.output_tokens)],
    ['Total tokens', tokens(usage?.total_tokens)],
    ...(progress?.cost == null
      ? []
      : [
          [
            'Cost so far',
            h('span', { title: progress.cost }, formatCost(progress.cost, progress.currency ?? '')),
          ] as const,
        ]),
    ['Duration', ended === null ? '–' : formatMs((ended - created) * 1_000)],
    ['Created', formatTime(created)],
    ['Started', started === null ? '–' : formatTime(started)],
    ended === null ? ['Expires', formatTime(expires)] : ['Ended', formatTime(ended)],
    ['Model', batch.model ?? (isKnown(batch) ? 'several' : '–')],
    ['Endpoint', batch.endpoint],
    ['Created with', batch.key_id ?? 'sign-in token'],
    ...(retryOf === null
      ? []
      : [['Runs again lines of', h(ShortId, { id: retryOf, what: 'batch ID', href: batchLink(retryOf) })] as const]),
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
        { title: 'Code', cell: ([code]) => h('code', null, code), phone: 'first' },
        {
          title: 'Lines',
          holds: 'number',
          cell: ([, lines]) => formatCount(lines),
          sortBy: ([, lines]) => lines,
          phone: 'end',
        },
      ],
    }),
  ];
}

/** While it runs. Operators do not see what the account has written. */
function FirstFailures({ failures }: { failures: readonly LineFailure[] }) {
  const hasTexts = failures.some(({ message }) => message !== undefined);
  return h(Table<LineFailure>, {
    caption: failures.length === 1 ? 'The line that has failed' : `The first ${failures.length} lines that have failed`,
    rows: failures,
    rowKey: ({ line }) => String(line),
    columns: [
      { title: 'Line', cell: ({ line }) => formatCount(line), phone: 'first' },
      ...(hasTexts
        ? [{ title: 'custom_id', cell: ({ custom_id: id }: LineFailure) => id, phone: 'first' as const }]
        : []),
      { title: 'Code', cell: ({ code }) => h('code', null, code), phone: 'end' },
      ...(hasTexts
        ? [
            {
              title: 'Error',
              cell: ({ message }: LineFailure) => message,
              holds: 'text' as const,
              phone: 'second' as const,
            },
          ]
        : []),
    ],
  });
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
