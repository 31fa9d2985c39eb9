import { h } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { accountLink } from './console-route.ts';
import { Icon } from './icons.ts';

type Props = {
  id: string;
  /** What it identifies, for the button that copies it. */
  what: string;
  href?: string;
};

const startLength = 9;
const endLength = 5;
const confirmedMs = 2_000;

/** An id in the space of a table's cell: its start and end, whole in its tooltip, with a button to copy it. */
export function ShortId({ id, what, href }: Props) {
  const code = h('code', { title: id }, shortId(id));
  return h(
    'span',
    { class: 'short-id' },
    href === undefined ? code : h('a', { href }, code),
    h(CopyIcon, { id, what }),
  );
}

function CopyIcon({ id, what }: Omit<Props, 'href'>) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), confirmedMs);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = () =>
    navigator.clipboard.writeText(id).then(
      () => setCopied(true),
      () => {}, // the browser does not allow it; the id can be selected on its own page
    );
  return [
    h(
      'button',
      {
        type: 'button',
        class: 'bare',
        title: 'Copy',
        'aria-label': `Copy the ${what} ${id}`,
        onClick: () => void copy(),
      },
      h(Icon, { name: isCopied ? 'done' : 'copy' }),
    ),
    h('span', { class: 'unseen', role: 'status' }, isCopied ? 'Copied.' : ''),
  ];
}

function shortId(id: string): string {
  return id.length <= startLength + endLength + 1 ? id : `${id.slice(0, startLength)}…${id.slice(-endLength)}`;
}

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

/** An account of which operators see the page, with its display name beside the id. The hash of a device is shortened. */
export function AccountLink({ account, name }: { account: string; name?: string | undefined }) {
  const short = account.replace(/^(device:[0-9a-f]{6})[0-9a-f]+([0-9a-f]{4})$/, '$1…$2');
  return [h('a', { href: accountLink(account), title: account }, short), h(DisplayName, { name })];
}

/** Nothing for an account without a name. The name is text of its user: only the id says who it is. */
export function DisplayName({ name }: { name?: string | undefined }) {
  return name === undefined ? null : h('bdi', { class: 'quiet' }, ` (${name})`);
}
