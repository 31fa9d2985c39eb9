import { type ComponentChildren, h } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { Failure } from './failure.ts';

type Props = {
  title: string;
  /** What it says on the button that does it. */
  action: string;
  isDangerous?: boolean;
  run: () => Promise<void>;
  close: () => void;
  children?: ComponentChildren;
};

/** Asks before something is done that cannot be undone. It stays while that is under way, and where it fails says why. */
export function ConfirmDialog({ title, action, isDangerous = false, run, close, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const [state, setState] = useState<{ busy: boolean; error?: unknown }>({ busy: false });

  useEffect(() => dialog.current?.showModal(), []);

  async function confirm(event: Event): Promise<void> {
    event.preventDefault();
    setState({ busy: true });
    try {
      await run();
      close();
    } catch (error) {
      setState({ busy: false, error });
    }
  }

  return h(
    'dialog',
    {
      ref: dialog,
      'aria-labelledby': titleId,
      onClose: close,
      onCancel: (event: Event) => state.busy && event.preventDefault(),
    },
    h(
      'form',
      { onSubmit: (event: Event) => void confirm(event) },
      h('h2', { id: titleId }, title),
      children,
      state.error !== undefined && h(Failure, { error: state.error }),
      h(
        'div',
        { class: 'actions' },
        h('button', { type: 'button', onClick: close, disabled: state.busy }, 'Keep as it is'),
        h('button', { type: 'submit', class: isDangerous ? 'danger' : 'primary', disabled: state.busy }, action),
      ),
    ),
  );
}
