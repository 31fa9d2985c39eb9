import { type ComponentChildren, h } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Failure } from './failure.ts';
import { useDoing } from './use-doing.ts';

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
  // Closed before it is taken away: the browser then puts the focus back to where it was.
  const leave = () => dialog.current?.close();
  const doing = useDoing(async () => {
    await run();
    leave();
  });

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
      doing.error !== undefined && h(Failure, { error: doing.error }),
      h(
        'div',
        { class: 'actions' },
        h('button', { type: 'button', onClick: leave, 'aria-disabled': doing.busy }, 'Keep as it is'),
        h('button', { type: 'submit', class: isDangerous ? 'danger' : 'primary', 'aria-disabled': doing.busy }, action),
      ),
    ),
  );
}
