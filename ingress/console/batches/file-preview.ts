import { h } from 'preact';
import { useFocusedHeading } from '../page/focus.ts';
import { formatBytes, formatCount } from '../page/format.ts';
import { type Figure, Figures, Table } from '../page/table.ts';
import { answerTokensOf, costWords, faultsOf, monthWords, type PlanFacts } from './file-estimate.ts';
import { faultsMax, type LineFault, type Preview } from './read-preview.ts';

type Props = {
  file: File;
  preview: Preview;
  /** Undefined if it could not be read: then the service alone knows the models. */
  plan: PlanFacts | undefined;
  confirm: () => void;
  cancel: () => void;
};

/**
 * What is in a file, before anything is sent. If the service would refuse it, the way back comes first; its faults do not keep it from
 * being sent, because the service decides.
 */
export function FilePreview({ file, preview, plan, confirm, cancel }: Props) {
  const heading = useFocusedHeading();
  const faults = faultsOf(preview, plan?.unknown ?? []);
  const isRefused = preview.lines === 0 || faults.some(({ isOfForm }) => isOfForm);
  const month = plan && !isRefused ? monthWords(preview, plan.quota) : undefined;
  const create = (words: string, className: string) =>
    h('button', { type: 'button', class: className, onClick: confirm, disabled: preview.lines === 0 }, words);
  const back = (className: string) =>
    h('button', { type: 'button', class: className, onClick: cancel }, 'Choose another file');
  return h(
    'div',
    { class: 'card' },
    h('h3', { tabIndex: -1, ref: heading }, file.name),
    h(Figures, { figures: figuresOf(file, preview, plan) }),
    h(Faults, { preview, faults }),
    month && h('p', { class: month.isEnough ? 'quiet' : 'warning' }, month.words),
    h(
      'div',
      { class: 'actions' },
      isRefused
        ? [back('primary'), create('Create it anyway', '')]
        : [create(faults.length === 0 ? 'Create the batch' : 'Create the batch anyway', 'primary'), back('')],
    ),
  );
}

function figuresOf(file: File, preview: Preview, plan: PlanFacts | undefined): Figure[] {
  const { lines, endpoint, tokens } = preview;
  const names = preview.models.map(({ name }) => name).filter((name) => !plan?.unknown.includes(name));
  const answers = answerTokensOf(preview);
  const cost = plan && costWords(preview, plan);
  return [
    ['Size', formatBytes(file.size)],
    ['Lines', formatCount(lines)],
    [names.length === 1 ? 'Model' : 'Models', namesOf(names)],
    ['Endpoint', endpoint ?? '–'],
    ['Prompt tokens, about', formatCount(tokens)],
    ['Answer tokens, at most', answers === undefined ? 'no limit' : formatCount(answers)],
    ...(cost === undefined ? [] : [['Cost, about', cost] as const]),
  ];
}

const modelsShownMax = 10;

function namesOf(models: readonly string[]): string {
  const shown = models.slice(0, modelsShownMax).join(', ') || '–';
  const others = models.length - modelsShownMax;
  return others > 0 ? `${shown} and ${formatCount(others)} more` : shown;
}

type FaultsProps = { preview: Preview; faults: readonly LineFault[] };

function Faults({ preview: { lines, examined, faults: ofForm }, faults }: FaultsProps) {
  if (lines === 0) return h('p', { class: 'warning' }, 'The file has no lines.');
  const where = examined < lines ? `the first ${formatCount(examined)} lines` : 'its lines';
  if (faults.length === 0)
    return h('p', { class: 'good' }, `No faults in the form of ${where}. The service checks all of it.`);
  return [
    h(
      'p',
      { class: 'warning' },
      ofForm.some(({ isOfForm }) => isOfForm)
        ? refusalWords(faults.length, ofForm.length === faultsMax)
        : 'These lines would end with an error. The service runs the others:',
    ),
    h(Table<LineFault>, {
      caption: `Faults of ${where}`,
      rows: faults,
      rowKey: ({ line, message }) => `${line} ${message}`,
      columns: [
        { title: 'Line', cell: ({ line }) => line },
        { title: 'Fault', cell: ({ message }) => message, holds: 'text' },
      ],
    }),
  ];
}

/** `This file has 3 errors. Correct them first: a batch with errors does not run.` */
function refusalWords(count: number, isMore: boolean): string {
  if (count === 1) return 'This file has 1 error. Correct it first: a batch with errors does not run.';
  return `This file has ${isMore ? 'at least ' : ''}${count} errors. Correct them first: a batch with errors does not run.`;
}
