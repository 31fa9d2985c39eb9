import { h } from 'preact';
import { useState } from 'preact/hooks';

/** Takes a file that is dropped or chosen. */
export function FileField({ isBusy, take }: { isBusy: boolean; take: (file: File) => void }) {
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
