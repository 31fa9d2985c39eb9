import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Batch, File as StoredFile } from '../../api/response-schemas.ts';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';
import { Failure } from '../page/failure.ts';
import { formatBytes } from '../page/format.ts';

type State =
  | { name: 'idle' }
  | { name: 'uploading'; file: string; sent: number; total: number }
  | { name: 'creating'; file: string }
  | { name: 'done'; file: string }
  | { name: 'failed'; error: unknown };

const endpoint = '/v1/chat/completions';

/** Uploads a file that is dropped or chosen, shows the progress, and creates a batch from it. */
export function UploadForm({ api, created }: { api: Api; created: () => void }) {
  const [state, setState] = useState<State>({ name: 'idle' });
  const stop = useRef(() => {});
  useEffect(() => () => stop.current(), []);
  const isBusy = state.name === 'uploading' || state.name === 'creating';

  async function submit(file: File): Promise<void> {
    const aborting = new AbortController();
    stop.current = () => aborting.abort();
    setState({ name: 'uploading', file: file.name, sent: 0, total: file.size });
    try {
      const { id } = await api.upload<StoredFile>(file, {
        signal: aborting.signal,
        progress: (sent, total = file.size) => setState({ name: 'uploading', file: file.name, sent, total }),
      });
      aborting.signal.throwIfAborted();
      setState({ name: 'creating', file: file.name });
      await createBatch(api, id);
      setState({ name: 'done', file: file.name });
      created();
    } catch (error) {
      setState(aborting.signal.aborted ? { name: 'idle' } : { name: 'failed', error });
    }
  }

  function take(files: FileList | null | undefined): void {
    const [file] = files ?? [];
    if (file !== undefined && !isBusy) void submit(file);
  }

  return h(
    'section',
    { 'aria-labelledby': 'upload-title' },
    h('h2', { id: 'upload-title' }, 'Create a batch'),
    h(FileField, { isBusy, take }),
    h(Progress, { state, stop: () => stop.current() }),
  );
}

async function createBatch(api: Api, fileId: string): Promise<void> {
  try {
    const body = { input_file_id: fileId, endpoint, completion_window: '24h' };
    await api.call<Batch>('/v1/batches', { method: 'POST', body });
  } catch (error) {
    // A file whose batch was refused is useless. Without an answer, a batch may have been created from it.
    const isRefused = error instanceof ApiFailure && error.status >= 400 && error.status < 500;
    if (isRefused) void api.call(`/v1/files/${fileId}`, { method: 'DELETE' }).catch(() => {});
    throw error;
  }
}

function FileField({ isBusy, take }: { isBusy: boolean; take: (files: FileList | null | undefined) => void }) {
  const [isOver, setOver] = useState(false);
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
        take(event.dataTransfer?.files);
      },
    },
    h('label', { for: 'batch-file' }, 'Drop a JSONL file here, or choose one'),
    h('input', {
      id: 'batch-file',
      type: 'file',
      accept: '.jsonl,.ndjson,application/jsonl',
      disabled: isBusy,
      onChange: ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
        take(currentTarget.files);
        currentTarget.value = ''; // so that the same file can be chosen again
      },
    }),
    h('p', { class: 'quiet' }, 'One request per line: custom_id, method POST, url /v1/chat/completions, body.'),
  );
}

function Progress({ state, stop }: { state: State; stop: () => void }) {
  if (state.name === 'failed') return h(Failure, { error: state.error });
  const words = {
    idle: '',
    uploading: state.name === 'uploading' ? `Uploading ${state.file}` : '',
    creating: state.name === 'creating' ? `Creating a batch from ${state.file} …` : '',
    done: state.name === 'done' ? `A batch was created from ${state.file}. Its lines are being validated.` : '',
  };
  return [
    h('p', { role: 'status' }, words[state.name]),
    state.name === 'uploading' &&
      h(
        'div',
        { class: 'upload' },
        h('progress', { 'aria-label': `Upload of ${state.file}`, max: Math.max(1, state.total), value: state.sent }),
        h('span', { class: 'quiet' }, `${formatBytes(state.sent)} of ${formatBytes(state.total)}`),
        h('button', { type: 'button', onClick: stop }, 'Stop the upload'),
      ),
  ];
}
