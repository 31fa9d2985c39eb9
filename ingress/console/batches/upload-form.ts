import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { File as StoredFile } from '../../routes/files.ts';
import type { Batch } from '../../routes/present-batch.ts';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';
import { batchLink } from '../page/console-route.ts';
import { formatBytes } from '../page/format.ts';
import { Failure } from '../page/loaded-view.ts';
import { type PlanFacts, readPlanFacts } from './file-estimate.ts';
import { FilePreview } from './file-preview.ts';
import { type Preview, readPreview } from './read-preview.ts';

type State =
  | { name: 'idle' }
  | { name: 'reading'; file: File }
  | { name: 'shown'; file: File; preview: Preview; plan: PlanFacts | undefined }
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
      const plan = await readPlanFacts(api, preview, signal).catch(() => signal.throwIfAborted());
      setState({ name: 'shown', file, preview, plan: plan ?? undefined });
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
