import { type ComponentChildren, h } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Api } from '../api/api.ts';
import { beyondFields } from '../api/api-failure.ts';
import { LabelledInput } from './fields.ts';
import { formatBytes } from './format.ts';
import { Failure } from './loaded-view.ts';

/** An action of a button: whether it is running, and its last error. `run` does nothing while it is running. */
type ActionState = { busy: boolean; error: unknown; run: (event?: Event) => void };

export function useDoing(what: () => Promise<void>): ActionState {
  const [state, setState] = useState<{ busy: boolean; error: unknown }>({ busy: false, error: undefined });
  const isRunning = useRef(false);

  async function run(): Promise<void> {
    if (isRunning.current) return;
    isRunning.current = true;
    setState({ busy: true, error: undefined });
    try {
      await what();
      setState({ busy: false, error: undefined });
    } catch (error) {
      setState({ busy: false, error });
    } finally {
      isRunning.current = false;
    }
  }

  return {
    ...state,
    run(event) {
      event?.preventDefault();
      void run();
    },
  };
}

type Props = {
  title: string;
  /** Label of the button that confirms. */
  action: string;
  isDangerous?: boolean;
  /** Whether it can be confirmed yet. */
  isReady?: boolean;
  /** Fields in it that show what the API says of them. */
  fields?: readonly string[];
  run: () => Promise<void>;
  close: () => void;
  children?: ComponentChildren;
};

/** Asks for confirmation. Stays open while the action runs, and shows its error if it fails. */
export function ConfirmDialog(props: Props) {
  const { title, action, isDangerous = false, isReady = true, fields = [], run, close, children } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  // Closed before it is removed: the browser then restores the focus.
  const leave = () => dialog.current?.close();
  const doing = useDoing(async () => {
    await run();
    leave();
  });

  const error = beyondFields(doing.error, fields);

  useEffect(() => dialog.current?.showModal(), []);

  return h(
    'dialog',
    {
      ref: dialog,
      'aria-labelledby': titleId,
      onClose: close,
      onCancel: (event: Event) => doing.busy && event.preventDefault(),
    },
    h(
      'form',
      { onSubmit: doing.run },
      h('h2', { id: titleId }, title),
      children,
      error !== undefined && h(Failure, { error }),
      h(
        'div',
        { class: 'actions' },
        h('button', { type: 'button', onClick: leave, 'aria-disabled': doing.busy }, 'Go back'),
        h(
          'button',
          {
            type: 'submit',
            class: isDangerous ? 'danger' : 'primary',
            disabled: !isReady,
            'aria-disabled': doing.busy,
          },
          action,
        ),
      ),
    ),
  );
}

/** Saves what the API returns at this path as a file of this name. */
export function DownloadButton({ api, path, name, label }: { api: Api; path: string; name: string; label: string }) {
  const [received, setReceived] = useState(0);
  const leaving = useRef(new AbortController());
  useEffect(() => () => leaving.current.abort(), []);
  const doing = useDoing(async () => {
    setReceived(0);
    const { signal } = leaving.current;
    saveFile(await api.download(path, { progress: setReceived, signal }), name);
  });
  return [
    h('button', { type: 'button', 'aria-disabled': doing.busy, onClick: doing.run }, label),
    h('span', { class: 'unseen', role: 'status' }, doing.busy ? 'Downloading …' : ''), // once, and not each number
    doing.busy && h('span', { class: 'quiet' }, `${formatBytes(received)} received`),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  ];
}

/** Makes the browser save these bytes as a file, as for a download link. */
export function saveFile(bytes: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(bytes);
  link.download = name;
  link.click();
  // By then the browser holds a reference to the bytes.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

type AskDialogProps = {
  title: string;
  action: string;
  account: string;
  isDangerous?: boolean;
  isReady?: boolean;
  run: (reason: string) => Promise<void>;
  close: () => void;
  children?: ComponentChildren;
};

/** Asks for confirmation and a reason of a change of this account. */
export function AskDialog({ account, run, children, ...dialog }: AskDialogProps) {
  const [reason, setReason] = useState('');
  return h(
    ConfirmDialog,
    { ...dialog, run: () => run(reason.trim()) },
    h('p', null, h('code', null, account)),
    children,
    h(ReasonField, { reason, setReason }),
  );
}

type ReasonProps = { reason: string; setReason: (reason: string) => void };

/** The optional reason of a change, for the audit trail. */
export function ReasonField({ reason, setReason }: ReasonProps) {
  return h(LabelledInput, {
    label: 'Reason (for the audit trail)',
    type: 'text',
    value: reason,
    change: setReason,
    input: { maxLength: 500, placeholder: 'optional' },
  });
}
