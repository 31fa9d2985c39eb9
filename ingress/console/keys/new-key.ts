import { h } from 'preact';
import { useId } from 'preact/hooks';
import { CopyButton } from '../controls/copy-button.ts';
import { useFocusedHeading } from '../page/keep-focus.ts';
import type { FullKey } from './held-keys.ts';

type Props = {
  shown: FullKey;
  /** Opens "Try it" with this key. */
  tryOut: () => void;
  dismiss: () => void;
};

/** The full value, shown once, and what to do next. */
export function NewKey({ shown: { name, key }, tryOut, dismiss }: Props) {
  const id = useId();
  const heading = useFocusedHeading();
  return h(
    'section',
    { class: 'notice', 'aria-labelledby': id },
    h('h2', { id, tabIndex: -1, ref: heading }, `Your new key "${name}"`),
    h('p', null, 'Store it now with the secrets of your program. It is shown only once and cannot be recovered.'),
    h('p', null, h('code', { class: 'key' }, key)),
    h(
      'div',
      { class: 'actions' },
      h(CopyButton, { text: key, label: 'Copy' }),
      h('button', { type: 'button', onClick: tryOut }, 'Try it'),
      h('button', { type: 'button', onClick: dismiss }, 'I have stored it'),
    ),
  );
}
