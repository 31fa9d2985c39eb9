import { h } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { CopyButton } from '../page/copy-button.ts';

/** The full value, shown once. */
export function NewKey({ value, putAway }: { value: string; putAway: () => void }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), [value]);
  return h(
    'section',
    { class: 'notice', 'aria-labelledby': 'new-key' },
    h('h2', { id: 'new-key', tabIndex: -1, ref: heading }, 'Your new key'),
    h('p', null, 'Store it now with the secrets of your program. It is shown only once and cannot be recovered.'),
    h('p', null, h('code', { class: 'key' }, value)),
    h(
      'div',
      { class: 'actions' },
      h(CopyButton, { text: value, label: 'Copy' }),
      h('button', { type: 'button', onClick: putAway }, 'I have stored it'),
    ),
  );
}
