import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { File as StoredFile } from '../../routes/files.ts';
import type { Batch } from '../../routes/present-batch.ts';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';
import { batchLink } from '../page/console-route.ts';
import { useFocusedHeading } from '../page/focus.ts';
import { formatBytes, formatCount } from '../page/format.ts';
import { Failure } from '../page/loaded-view.ts';
import { Figures, Table } from '../page/table.ts';
import { type LineFault, type Preview, readPreview } from './read-preview.ts';

type State =
  | { name: 'idle' }
  | { name: 'reading'; file: File }
  | { name: 'shown'; file: File; preview: Preview }
  | { name: 'uploading'; file: File; sent: number; total: number }
  | { name: 'creating'; file: File }
  | { name: 'failed'; error: unknown };

const usualEndpoint = '/v1/chat/completions';

/** Shows what a file holds; when that is confirmed, uploads it, creates a batch from it, and goes to the page of the batch. */
export function UploadForm({ api }: { api: Api }) {
  const [state, setState] = useState<State>({ name: 'idle' });
  const current = useRef(new AbortController());
  useEffect(() => () => current.current.abort(), []);
  const isBusy = state.name === 'reading' || state.name === 'uploading' || state.name === 'creating';

  /** Runs one step. A step that is stopped leads back to the start. */
  async function step(run: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const aborting = new AbortController();
    current.current = aborting;
    try {
      await run(aborting.signal);
    } catch (error) {
      setState(aborting.signal.aborted ? { name: 'idle' } : { name: 'failed', error });
    }
  }

  const look = (file: File) =>
    step(async (signal) => {
      setState({ name: 'reading', file });
      const preview = await readPreview(file, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        throw unreadable(error);
      });
      setState({ name: 'shown', file, preview });
    });

  const submit = (file: File, { endpoint = usualEndpoint }: Preview) =>
    step(async (signal) => {
      setState({ name: 'uploading', file, sent: 0, total: file.size });
      const { id } = await api.upload<StoredFile>(file, {
        signal,
        progress: (sent, total = file.size) => setState({ name: 'uploading', file, sent, total }),
      });
      signal.throwIfAborted();
      setState({ name: 'creating', file });
      const batch = await createBatch(api, { fileId: id, endpoint });
      if (!signal.aborted) window.location.hash = batchLink(batch.id); // else the page was left
    });

  return h(
    'section',
    { 'aria-labelledby': 'upload-title' },
    h('h2', { id: 'upload-title' }, 'Create a batch'),
    state.name !== 'shown' && h(FileField, { isBusy, take: (file) => void look(file) }),
    state.name === 'shown' &&
      h(FilePreview, {
        ...state,
        confirm: () => void submit(state.file, state.preview),
        cancel: () => setState({ name: 'idle' }),
      }),
    h(Progress, { state, stop: () => current.current.abort() }),
  );
}

function unreadable(cause: unknown): ApiFailure {
  const failure = new ApiFailure('The file cannot be read. It may have been moved or changed: choose it again.', {
    code: 'unreadable',
    status: 0,
  });
  failure.cause = cause;
  return failure;
}

async function createBatch(api: Api, { fileId, endpoint }: { fileId: string; endpoint: string }): Promise<Batch> {
  try {
    const body = { input_file_id: fileId, endpoint, completion_window: '24h' };
    return await api.call<Batch>('/v1/batches', { method: 'POST', body });
  } catch (error) {
    // A file whose batch was refused is useless. Without an answer, a batch may have been created from it.
    const isRefused = error instanceof ApiFailure && error.status >= 400 && error.status < 500;
    if (isRefused) void api.call(`/v1/files/${fileId}`, { method: 'DELETE' }).catch(() => {});
    throw error;
  }
}

function Progress({ state, stop }: { state: State; stop: () => void }) {
  if (state.name === 'failed') return h(Failure, { error: state.error });
  const words = {
    idle: '',
    reading: state.name === 'reading' ? `Reading ${state.file.name} …` : '',
    shown: '',
    uploading: state.name === 'uploading' ? `Uploading ${state.file.name}` : '',
    creating: state.name === 'creating' ? `Creating a batch from ${state.file.name} …` : '',
  };
  return [
    h('p', { role: 'status' }, words[state.name]),
    state.name === 'reading' && h('button', { type: 'button', onClick: stop }, 'Stop reading'),
    state.name === 'uploading' &&
      h(
        'div',
        { class: 'upload' },
        h('progress', {
          'aria-label': `Upload of ${state.file.name}`,
          max: Math.max(1, state.total),
          value: state.sent,
        }),
        h('span', { class: 'quiet' }, `${formatBytes(state.sent)} of ${formatBytes(state.total)}`),
        h('button', { type: 'button', onClick: stop }, 'Stop the upload'),
      ),
  ];
}

/** Takes a file that is dropped or chosen. */
function FileField({ isBusy, take }: { isBusy: boolean; take: (file: File) => void }) {
  const [isOver, setOver] = useState(false);
  const takeFirst = (files: FileList | null | undefined) => {
    const [file] = files ?? [];
    if (file !== undefined && !isBusy) take(file);
  };
  return h(
    'div',
    {
      class: isOver ? 'drop over' : 'drop',
      onDragOver: (event: DragEvent) => {
        event.preventDefault();
        setOver(true);
      },
      onDragLeave: () => setOver(false),
      onDrop: (event: DragEvent) => {
        event.preventDefault();
        setOver(false);
        takeFirst(event.dataTransfer?.files);
      },
    },
    h('label', { for: 'batch-file' }, 'Drop a JSONL file here, or choose one'),
    h('input', {
      id: 'batch-file',
      type: 'file',
      accept: '.jsonl,.ndjson,application/jsonl',
      disabled: isBusy,
      onChange: ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
        takeFirst(currentTarget.files);
        currentTarget.value = ''; // so that the same file can be chosen again
      },
    }),
    h('p', { class: 'quiet' }, 'One request per line: custom_id, method POST, url such as /v1/chat/completions, body.'),
  );
}

type PreviewProps = { file: File; preview: Preview; confirm: () => void; cancel: () => void };

/** What is in a file, before anything is sent. Its faults are shown, and do not keep it from being sent: the service decides. */
function FilePreview({ file, preview, confirm, cancel }: PreviewProps) {
  const heading = useFocusedHeading();
  const { lines, models, endpoint, tokens, faults } = preview;
  return h(
    'div',
    { class: 'card' },
    h('h3', { tabIndex: -1, ref: heading }, file.name),
    h(Figures, {
      figures: [
        ['Size', formatBytes(file.size)],
        ['Lines', formatCount(lines)],
        [models.length === 1 ? 'Model' : 'Models', namesOf(models)],
        ['Endpoint', endpoint ?? '–'],
        ['Prompt tokens, about', formatCount(tokens)],
      ],
    }),
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
