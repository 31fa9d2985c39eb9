import { h } from 'preact';
import { useState } from 'preact/hooks';

/** Puts the text on the clipboard, and says so. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const [outcome, setOutcome] = useState('');
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setOutcome('Copied.'),
      () => setOutcome('The browser does not allow it: select the text and copy it.'),
    );
  return h(
    'span',
    { class: 'copy' },
    h('button', { type: 'button', onClick: () => void copy() }, label),
    h('span', { role: 'status', class: 'quiet' }, outcome),
  );
}
