import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Choice } from '../page/fields.ts';
import { CopyButton } from '../page/identifiers.ts';
import { codeFor, type Language, languages, type TriedEndpoint } from './tried-endpoint.ts';

type Props = { endpoint: TriedEndpoint; request: object; baseUrl: string; close: () => void };

/** The request as program code, at the side of the page. The key is not in it: programs read it from their environment. */
export function CodeDrawer({ endpoint, request, baseUrl, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [language, setLanguage] = useState<Language>('curl');
  const code = codeFor(endpoint, language, request, baseUrl);
  useEffect(() => dialog.current?.showModal(), []);
  return h(
    'dialog',
    { ref: dialog, class: 'drawer', 'aria-labelledby': 'code-title', onClose: close },
    h('h2', { id: 'code-title' }, 'The same request from a program'),
    h(Choice<Language>, { legend: 'Language', options: languages, chosen: language, choose: setLanguage }),
    h('pre', { tabIndex: 0, 'aria-label': `The request in ${languages[language]}` }, h('code', null, code)),
    h(
      'div',
      { class: 'actions' },
      h(CopyButton, { text: code, label: 'Copy the code' }),
      // Closed before it is removed: the browser then restores the focus.
      h('button', { type: 'button', onClick: () => dialog.current?.close() }, 'Close'),
    ),
  );
}
