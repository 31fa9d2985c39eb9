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

/** A file is dropped or chosen, uploaded with a bar that moves, and handed in as a batch. */
export function UploadForm({ api, handedIn }: { api: Api; handedIn: () => void }) {
  const [state, setState] = useState<State>({ name: 'idle' });
  const [isOver, setOver] = useState(false);
  const stop = useRef(() => {});
  useEffect(() => () => stop.current(), []);
  const isBusy = state.name === 'uploading' || state.name === 'creating';

  async function handIn(file: File): Promise<void> {
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
      await create(id);
      setState({ name: 'done', file: file.name });
      handedIn();
    } catch (error) {
      setState(aborting.signal.aborted ? { name: 'idle' } : { name: 'failed', error });
    }
  }

  async function create(id: string): Promise<void> {
    try {
      const body = { input_file_id: id, endpoint, completion_window: '24h' };
      await api.call<Batch>('/v1/batches', { method: 'POST', body });
    } catch (error) {
      // What was refused is of no use there. Where there was no answer, a batch may have it.
      const isRefused = error instanceof ApiFailure && error.status >= 400 && error.status < 500;
      if (isRefused) void api.call(`/v1/files/${id}`, { method: 'DELETE' }).catch(() => {});
      throw error;
    }
  }

  function take(files: FileList | null | undefined): void {
    const [file] = files ?? [];
    if (file !== undefined && !isBusy) void handIn(file);
  }

  function drop(event: DragEvent): void {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer?.files);
  }

  return h(
    'section',
    { 'aria-labelledby': 'upload-title' },
    h('h2', { id: 'upload-title' }, 'Hand in a file'),
    h(
      'div',
      {
        class: isOver ? 'drop over' : 'drop',
        onDragOver: (event: DragEvent) => {
          event.preventDefault();
          setOver(true);
        },
        onDragLeave: () => setOver(false),
        onDrop: drop,
      },
      h('label', { for: 'batch-file' }, 'Drop a file of JSON lines here, or choose one'),
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
      h('p', { class: 'quiet' }, 'One request a line: custom_id, method POST, url /v1/chat/completions, body.'),
    ),
    h(Progress, { state, stop: () => stop.current() }),
  );
}

function Progress({ state, stop }: { state: State; stop: () => void }) {
  if (state.name === 'failed') return h(Failure, { error: state.error });
  const words = {
    idle: '',
    uploading: state.name === 'uploading' ? `Uploading ${state.file}` : '',
    creating: state.name === 'creating' ? `Handing in ${state.file} …` : '',
    done: state.name === 'done' ? `${state.file} is handed in. Its lines are being checked.` : '',
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
