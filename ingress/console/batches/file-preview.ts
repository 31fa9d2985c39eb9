import { h } from 'preact';
import { Table } from '../controls/table.ts';
import { formatBytes, formatCount } from '../page/format.ts';
import { useFocusedHeading } from '../page/keep-focus.ts';
import type { LineFault, Preview } from './read-preview.ts';

type Props = { file: File; preview: Preview; confirm: () => void; cancel: () => void };

/** What is in a file, before anything is sent. Its faults are shown, and do not keep it from being sent: the service decides. */
export function FilePreview({ file, preview, confirm, cancel }: Props) {
  const heading = useFocusedHeading();
  const { lines, models, endpoint, tokens, faults } = preview;
  return h(
    'div',
    { class: 'card' },
    h('h3', { tabIndex: -1, ref: heading }, file.name),
    h(
      'dl',
      { class: 'figures' },
      [
        ['Size', formatBytes(file.size)],
        ['Lines', formatCount(lines)],
        [models.length === 1 ? 'Model' : 'Models', namesOf(models)],
        ['Endpoint', endpoint ?? '–'],
        ['Prompt tokens, about', formatCount(tokens)],
      ].map(([term, value]) => h('div', { key: term }, h('dt', null, term), h('dd', null, value))),
    ),
    h(Faults, { preview }),
    h(
      'div',
      { class: 'actions' },
      h(
        'button',
        { type: 'button', class: 'primary', onClick: confirm, disabled: lines === 0 },
        faults.length === 0 ? 'Create the batch' : 'Create the batch anyway',
      ),
      h('button', { type: 'button', onClick: cancel }, 'Choose another file'),
    ),
  );
}

const modelsShownMax = 10;

function namesOf(models: readonly string[]): string {
  const shown = models.slice(0, modelsShownMax).join(', ') || '–';
  const others = models.length - modelsShownMax;
  return others > 0 ? `${shown} and ${formatCount(others)} more` : shown;
}

function Faults({ preview: { lines, examined, faults } }: { preview: Preview }) {
  if (lines === 0) return h('p', { class: 'warning' }, 'The file has no lines.');
  const where = examined < lines ? `the first ${formatCount(examined)} lines` : 'its lines';
  if (faults.length === 0)
    return h('p', { class: 'good' }, `No faults in the form of ${where}. The service checks all of it.`);
  return [
    h(
      'p',
      { class: 'warning' },
      faults.some(({ isOfForm }) => isOfForm)
        ? 'The service would refuse this file, and run none of its lines:'
        : 'These lines would end with an error. The service runs the others:',
    ),
    h(Table<LineFault>, {
      caption: `Faults of ${where}`,
      rows: faults,
      rowKey: ({ line }) => String(line),
      columns: [
        { title: 'Line', cell: ({ line }) => line },
        { title: 'Fault', cell: ({ message }) => message, holds: 'text' },
      ],
    }),
  ];
}
