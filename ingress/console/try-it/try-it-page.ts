import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Model } from '../../routes/models.ts';
import type { Api } from '../api/api.ts';
import { useLoaded } from '../api/use-loaded.ts';
import type { FullKey, HeldKeys } from '../keys/held-keys.ts';
import { Choice } from '../page/fields.ts';
import { CopyButton } from '../page/identifiers.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { Composer } from './composer.ts';
import { messagesOf } from './conversation.ts';
import { SettingsPane } from './settings-pane.ts';
import { Thread } from './thread.ts';
import { codeFor, type Language, languages, type TriedEndpoint } from './tried-endpoint.ts';
import { modelsWith, offeredEndpoints, triedEndpoint, usableModels } from './tried-endpoints.ts';
import type { Trial } from './use-trial.ts';

type Props = { api: Api; baseUrl: string; docsUrl: string; trial: Trial; held: HeldKeys };

/** A conversation with one model, or with two side by side. No key is stored, and none is shown in the code. */
export function TryItPage({ api, baseUrl, docsUrl, trial, held }: Props) {
  const models = useLoaded((signal) => api.call<{ data: Model[] }>('/v1/models', { signal }), []);
  useConsoleKeyUntilLeft(trial);
  return [
    h('h1', { tabIndex: -1 }, 'Try it'),
    h(LoadedView<{ data: Model[] }>, {
      loaded: models,
      what: 'the models of your plan',
      lines: 10,
      children: ({ data }) =>
        Object.keys(offeredEndpoints(data)).length === 0
          ? h('p', { class: 'empty' }, 'Your plan includes no models that can be tried here.')
          : h(TryIt, { models: data, baseUrl, docsUrl, trial, keys: held.fresh }),
    }),
  ];
}

/** Its key is revoked when the page is left. What still runs then continues, unless the tab is closed. */
function useConsoleKeyUntilLeft({ consoleKey }: Trial): void {
  useEffect(() => {
    const close = () => void consoleKey.revoke({ endsRequests: true });
    window.addEventListener('pagehide', close);
    return () => {
      window.removeEventListener('pagehide', close);
      void consoleKey.revoke({ endsRequests: false });
    };
  }, [consoleKey]);
}

type TryItProps = Omit<Props, 'api' | 'held'> & { models: readonly Model[]; keys: readonly FullKey[] };

function TryIt({ models: all, baseUrl, docsUrl, trial, keys }: TryItProps) {
  const [isOpen, setOpen] = useState(false);
  const [isCodeShown, showCode] = useState(false);
  const { composition, turns } = trial;
  // A key that was created while this page is open is known with what it may use.
  const known = keys.find(({ key }) => key === trial.ownKey.trim());
  const models = usableModels(all, known);
  const options = offeredEndpoints(models);
  const name = Object.hasOwn(options, trial.endpoint) ? trial.endpoint : (Object.keys(options)[0] ?? '');
  const endpoint = triedEndpoint(name);
  const offering = modelsWith(models, name);
  // The chosen models are kept for when the user returns to an endpoint that they offer.
  const model = offering.includes(composition.model) ? composition.model : (offering[0] ?? '');
  const compared = composition.comparedModel;
  const isCompared = compared !== model && offering.includes(compared);
  const send = () => void trial.send({ baseUrl, docsUrl, endpoint, models: isCompared ? [model, compared] : [model] });
  const request = () => endpoint.requestOf({ ...composition, model, messages: messagesOf(composition, turns, 0) });

  return h(
    'div',
    { class: 'try-it' },
    h(
      'section',
      { class: 'talk', 'aria-label': 'Conversation' },
      h(Thread, { trial, endpoint, models: all }),
      h(Composer, { trial, endpoint, send }),
    ),
    h(
      'div',
      { class: 'side-pane' },
      h(
        'button',
        { type: 'button', class: 'unfold', 'aria-expanded': isOpen, onClick: () => setOpen(!isOpen) },
        `Settings: ${isCompared ? `${model} and ${compared}` : model}`,
      ),
      h(
        'section',
        { class: isOpen ? 'settings' : 'settings folded', 'aria-label': 'Settings' },
        h(SettingsPane, { trial, endpoint, name, options, offering, model, known }),
        h('button', { type: 'button', onClick: () => showCode(true) }, 'Show the code'),
      ),
    ),
    isCodeShown && h(CodeDrawer, { endpoint, request: request(), baseUrl, close: () => showCode(false) }),
  );
}

type DrawerProps = { endpoint: TriedEndpoint; request: object; baseUrl: string; close: () => void };

/** The request as program code, at the side of the page. The key is not in it: programs read it from their environment. */
function CodeDrawer({ endpoint, request, baseUrl, close }: DrawerProps) {
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
