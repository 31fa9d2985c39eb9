import { type ComponentChildren, h } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Failure } from '../page/failure.ts';
import { useDoing } from '../page/use-doing.ts';

type Props = {
  title: string;
  /** Label of the button that confirms. */
  action: string;
  isDangerous?: boolean;
  /** Whether it can be confirmed yet. */
  isReady?: boolean;
  run: () => Promise<void>;
  close: () => void;
  children?: ComponentChildren;
};

/** Asks for confirmation. Stays open while the action runs, and shows its error if it fails. */
export function ConfirmDialog({ title, action, isDangerous = false, isReady = true, run, close, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  // Closed before it is removed: the browser then restores the focus.
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
