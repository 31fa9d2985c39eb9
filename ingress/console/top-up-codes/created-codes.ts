import { h } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { CreatedTopUpCode } from '../../routes/top-up-codes.ts';
import { CopyButton } from '../controls/copy-button.ts';
import { saveFile } from '../controls/save-file.ts';
import { formatCount } from '../page/format.ts';

type Props = { codes: readonly CreatedTopUpCode[]; dismiss: () => void };

/** New codes in full, one in each line, to copy or to save. They are only in the memory of the page. */
export function CreatedCodes({ codes, dismiss }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), [codes]);
  const text = codes.map(({ code }) => `${code}\n`).join('');
  const save = () => saveFile(new Blob([text], { type: 'text/plain' }), 'top-up-codes.txt');
  const [{ tokens } = { tokens: 0 }] = codes;
  return h(
    'section',
    { class: 'notice', 'aria-labelledby': 'created-codes-title' },
    h(
      'h2',
      { id: 'created-codes-title', tabIndex: -1, ref: heading },
      `${formatCount(codes.length)} new ${codes.length === 1 ? 'code' : 'codes'}, ${formatCount(tokens)} tokens each`,
    ),
    h('p', null, 'Store them now. They are shown only here, until you leave this page, and cannot be recovered.'),
    h('textarea', {
      class: 'codes',
      'aria-label': 'New codes',
      readOnly: true,
      rows: Math.min(10, codes.length),
      spellcheck: false,
      value: text,
    }),
    h(
      'div',
      { class: 'actions' },
      h(CopyButton, { text, label: 'Copy all' }),
      h('button', { type: 'button', onClick: save }, 'Save as text'),
      h('button', { type: 'button', onClick: dismiss }, 'I have stored them'),
    ),
  );
}
