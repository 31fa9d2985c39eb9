import { h } from 'preact';
import { useState } from 'preact/hooks';

/** Puts the text on the clipboard, and says so of this text and no other. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const [said, setSaid] = useState({ of: '', words: '' });
  const say = (words: string) => setSaid({ of: text, words });
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => say('Copied.'),
      () => say('The browser does not allow it: select the text and copy it.'),
    );
  return h(
    'span',
    { class: 'copy' },
    h('button', { type: 'button', onClick: () => void copy() }, label),
    h('span', { role: 'status', class: 'quiet' }, said.of === text ? said.words : ''),
  );
}
