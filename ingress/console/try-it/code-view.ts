import { h } from 'preact';
import { useState } from 'preact/hooks';
import { Choice } from '../controls/choice.ts';
import { CopyButton } from '../controls/copy-button.ts';
import { type Language, languages, type TriedEndpoint } from './endpoints/tried-endpoint.ts';

type Props = { endpoint: TriedEndpoint; request: object; baseUrl: string };

/** The request as program code. The key is not in it: programs read it from their environment. */
export function CodeView({ endpoint, request, baseUrl }: Props) {
  const [language, setLanguage] = useState<Language>('curl');
  const code = endpoint.codeFor(language, request, baseUrl);
  return h(
    'section',
    { 'aria-labelledby': 'code-title' },
    h('h2', { id: 'code-title' }, 'The same request from a program'),
    h(Choice<Language>, { legend: 'Language', options: languages, chosen: language, choose: setLanguage }),
    h('pre', { tabIndex: 0, 'aria-label': `The request in ${languages[language]}` }, h('code', null, code)),
    h(CopyButton, { text: code, label: 'Copy the code' }),
  );
}
