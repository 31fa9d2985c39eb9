import { h } from 'preact';
import { useState } from 'preact/hooks';
import { Icon } from '../frame/icons.ts';

/** Copies the text to the clipboard. The confirmation disappears if the text changes. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const [said, setSaid] = useState({ of: '', words: '' });
  const say = (words: string) => setSaid({ of: text, words });
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => say('Copied.'),
      () => say('The browser does not allow this: select the text and copy it.'),
    );
  return h(
    'span',
    { class: 'copy' },
    h('button', { type: 'button', onClick: () => void copy() }, h(Icon, { name: 'copy' }), label),
    h('span', { role: 'status', class: 'quiet' }, said.of === text ? said.words : ''),
  );
}
