import { h } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Model } from '../../routes/models.ts';
import type { Api } from '../api/api.ts';
import { useLoaded } from '../api/use-loaded.ts';
import type { FullKey, HeldKeys } from '../keys/held-keys.ts';
import { Choice } from '../page/fields.ts';
import { CopyButton } from '../page/identifiers.ts';
import { Failure, LoadedView } from '../page/loaded-view.ts';
import { AnswerView } from './answer-view.ts';
import { DraftFields } from './draft-fields.ts';
import {
  codeFor,
  type Draft,
  documentsOf,
  type Language,
  languages,
  type TriedEndpoint,
  written,
} from './tried-endpoint.ts';
import { modelsWith, offeredEndpoints, triedEndpoint, usableModels } from './tried-endpoints.ts';
import type { Trial } from './use-trial.ts';

type Props = { api: Api; baseUrl: string; docsUrl: string; trial: Trial; held: HeldKeys };

/** Sends requests with an API key. The key is in the memory of this page: it is not stored and not shown in the code. */
export function TryItPage({ api, baseUrl, docsUrl, trial, held }: Props) {
  const models = useLoaded((signal) => api.call<{ data: Model[] }>('/v1/models', { signal }), []);
  return [
    h('h1', { tabIndex: -1 }, 'Try it'),
    h(LoadedView<{ data: Model[] }>, {
      loaded: models,
      what: 'the models of your plan',
      children: ({ data }) =>
        Object.keys(offeredEndpoints(data)).length === 0
          ? h('p', { class: 'empty' }, 'Your plan includes no models that can be tried here.')
          : h(TryIt, { models: data, baseUrl, docsUrl, trial, keys: held.fresh }),
    }),
  ];
}

type TryItProps = Omit<Props, 'api' | 'held'> & { models: readonly Model[]; keys: readonly FullKey[] };

function TryIt({ models: all, baseUrl, docsUrl, trial, keys }: TryItProps) {
  // A key that was created while this page is open is known with what it may use.
  const known = keys.find(({ key }) => key === trial.key.trim());
  const models = usableModels(all, known);
  const options = offeredEndpoints(models);
  const name = Object.hasOwn(options, trial.endpoint) ? trial.endpoint : (Object.keys(options)[0] ?? '');
  const endpoint = triedEndpoint(name);
  const offering = modelsWith(models, name);
  const { draft, run } = trial;
  // The chosen model is kept for when the user returns to an endpoint that it offers.
  const shown = { ...draft, model: offering.includes(draft.model) ? draft.model : (offering[0] ?? '') };
  const request = endpoint.requestOf(shown);
  const isRunning = run.state.name === 'running';

  function send(event: Event): void {
    event.preventDefault();
    void run.start({ baseUrl, docsUrl, key: trial.key.trim(), endpoint, request });
  }

  return [
    h(
      'form',
      { onSubmit: send, onKeyDown: sendByKeyboard },
      h(Choice<string>, { legend: 'Endpoint', options, chosen: name, choose: trial.choose }),
      h('div', { class: 'fields' }, h(KeyField, { trial, keys, known })),
      h(DraftFields, { endpoint, models: offering, draft: shown, change: trial.change }),
      h(Buttons, { isEmpty: isEmpty(shown, endpoint), isRunning, stop: run.stop }),
    ),
    h(AnswerView, {
      state: run.state.name,
      answer: run.answer,
      ...(endpoint.takes === 'messages' && { extend: (text: string) => extendConversation(trial, text) }),
    }),
    run.state.name === 'failed' && h(Failure, { error: run.state.error }),
    h(CodeView, { endpoint, request, baseUrl }),
  ];
}

/** Ctrl+Enter, and ⌘Enter on Apple's keyboards: in a text, Enter alone is a new line. */
function sendByKeyboard(event: KeyboardEvent): void {
  if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  (event.currentTarget as HTMLFormElement).requestSubmit(); // it is on the form
}

/** Makes the answer a part of the conversation, with a next message to write. */
function extendConversation({ draft, change, run }: Trial, answer: string): void {
  const messages = [...written(draft.messages), { role: 'assistant', content: answer } as const];
  change({ messages: [...messages, { role: 'user', content: '' }] });
  run.clear();
}

function isEmpty(draft: Draft, { takes }: TriedEndpoint): boolean {
  if (takes === 'messages') return written(draft.messages).length === 0;
  return draft.input.trim() === '' || (takes === 'documents' && documentsOf(draft).length === 0);
}

function Buttons({ isEmpty, isRunning, stop }: { isEmpty: boolean; isRunning: boolean; stop: () => void }) {
  return h(
    'div',
    { class: 'actions' },
    h('button', { type: 'submit', class: 'primary', disabled: isEmpty, 'aria-disabled': isRunning }, 'Send'),
    h('button', { type: 'button', 'aria-disabled': !isRunning, onClick: stop }, 'Stop'),
    h('span', { class: 'quiet' }, 'or press ', h('kbd', null, 'Ctrl'), ' ', h('kbd', null, 'Enter')),
  );
}

type KeyFieldProps = {
  trial: Trial;
  /** Keys that were created since the console was opened, newest first. */
  keys: readonly FullKey[];
  /** Which of them is in the field. */
  known: FullKey | undefined;
};

/** The key to call with. It starts with the newest one that was created here. */
function KeyField({ trial, keys: [newest], known }: KeyFieldProps) {
  useEffect(() => {
    if (trial.key === '' && newest !== undefined) trial.startWith(newest);
  }, []);
  return h(
    'label',
    null,
    'API key',
    h('input', {
      type: 'text',
      class: 'masked',
      required: true,
      pattern: ' *svc_[0-9A-Za-z]{38} *',
      title: 'svc_ and 38 letters and digits',
      autocapitalize: 'off',
      autocomplete: 'off',
      spellcheck: false,
      placeholder: 'svc_…',
      'aria-describedby': 'key-hint',
      value: trial.key,
      onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => trial.setKey(currentTarget.value),
    }),
    h(
      'span',
      { class: 'quiet', id: 'key-hint' },
      known === undefined ? '' : `Your new key "${known.name}" is filled in. `,
      'Not stored: it is kept until you reload or close the console.',
    ),
  );
}

type CodeViewProps = { endpoint: TriedEndpoint; request: object; baseUrl: string };

/** The request as program code. The key is not in it: programs read it from their environment. */
function CodeView({ endpoint, request, baseUrl }: CodeViewProps) {
  const [language, setLanguage] = useState<Language>('curl');
  const code = codeFor(endpoint, language, request, baseUrl);
  return h(
    'section',
    { 'aria-labelledby': 'code-title' },
    h('h2', { id: 'code-title' }, 'The same request from a program'),
    h(Choice<Language>, { legend: 'Language', options: languages, chosen: language, choose: setLanguage }),
    h('pre', { tabIndex: 0, 'aria-label': `The request in ${languages[language]}` }, h('code', null, code)),
    h(CopyButton, { text: code, label: 'Copy the code' }),
  );
}
