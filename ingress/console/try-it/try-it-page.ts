import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Model } from '../../api/response-schemas.ts';
import type { Api } from '../api/api.ts';
import { Choice } from '../controls/choice.ts';
import type { FullKey } from '../keys/held-keys.ts';
import { Failure } from '../page/failure.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { AnswerView } from './answer-view.ts';
import { CodeView } from './code-view.ts';
import { DraftFields } from './draft-fields.ts';
import { type Draft, type TriedEndpoint, written } from './endpoints/tried-endpoint.ts';
import { modelsWith, offeredEndpoints, triedEndpoint, usableModels } from './endpoints/tried-endpoints.ts';
import { useRun } from './use-run.ts';

type GivenKey = {
  /** The key to start with. */
  given: FullKey | undefined;
  /** Called when the page is left. */
  forget: () => void;
};

/** Sends one request with an API key. The key stays in its field: it is not stored and not shown in the code. */
export function TryItPage({ api, baseUrl, given, forget }: { api: Api; baseUrl: string } & GivenKey) {
  useEffect(() => forget, []);
  const models = useLoaded((signal) => api.call<{ data: Model[] }>('/v1/models', { signal }), []);
  return [
    h('h1', { tabIndex: -1 }, 'Try it'),
    h(LoadedView<{ data: Model[] }>, {
      loaded: models,
      what: 'the models of your plan',
      children: ({ data }) =>
        Object.keys(offeredEndpoints(data)).length === 0
          ? h('p', { class: 'empty' }, 'Your plan includes no models that can be tried here.')
          : h(TryIt, { models: usableModels(data, given), baseUrl, given }),
    }),
  ];
}

const firstMessages: Draft['messages'] = [{ role: 'user', content: 'Say hello in three languages.' }];
const firstInput = 'A text to compare with others.';

type TryItProps = Pick<GivenKey, 'given'> & { models: readonly Model[]; baseUrl: string };

function TryIt({ models, baseUrl, given }: TryItProps) {
  const options = offeredEndpoints(models);
  const [name, setName] = useState(Object.keys(options)[0] ?? '');
  const [draft, setDraft] = useState<Draft>({ model: '', messages: firstMessages, input: firstInput, maxTokens: '' });
  const { run, answer, start, stop, clear } = useRun();
  const key = useRef<HTMLInputElement>(null);
  const endpoint = triedEndpoint(name);
  const offering = modelsWith(models, name);
  const change = (part: Partial<Draft>) => setDraft((before) => ({ ...before, ...part }));
  // The chosen model is kept for when the user returns to an endpoint that it offers.
  const shown = { ...draft, model: offering.includes(draft.model) ? draft.model : (offering[0] ?? '') };
  const request = endpoint.requestOf(shown);

  function choose(chosen: string): void {
    setName(chosen);
    clear();
  }

  function send(event: Event): void {
    event.preventDefault();
    void start({ baseUrl, key: key.current?.value.trim() ?? '', endpoint, request });
  }

  return [
    h(
      'form',
      { onSubmit: send },
      h(Choice<string>, { legend: 'Endpoint', options, chosen: name, choose }),
      h('div', { class: 'fields' }, h(KeyField, { field: key, given })),
      h(DraftFields, { endpoint, models: offering, draft: shown, change }),
      h(Buttons, { isEmpty: isEmpty(shown, endpoint), isRunning: run.name === 'running', stop }),
    ),
    h(AnswerView, { state: run.name, answer }),
    run.name === 'failed' && h(Failure, { error: run.error }),
    h(CodeView, { endpoint, request, baseUrl }),
  ];
}

type KeyFieldProps = Pick<GivenKey, 'given'> & { field: { current: HTMLInputElement | null } };

function KeyField({ field, given }: KeyFieldProps) {
  // Not by an attribute, which would be in the source of the page.
  useEffect(() => {
    if (field.current !== null) field.current.value = given?.key ?? '';
  }, []);
  return h(
    'label',
    null,
    'API key',
    h('input', {
      ref: field,
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
    }),
    h(
      'span',
      { class: 'quiet', id: 'key-hint' },
      given === undefined
        ? 'Not stored: the key is lost when you leave this page.'
        : 'Your new key is filled in. It is not stored here: it is lost when you leave this page.',
    ),
  );
}

function isEmpty({ messages, input }: Draft, { takes }: TriedEndpoint): boolean {
  return takes === 'messages' ? written(messages).length === 0 : input.trim() === '';
}

function Buttons({ isEmpty, isRunning, stop }: { isEmpty: boolean; isRunning: boolean; stop: () => void }) {
  return h(
    'div',
    { class: 'actions' },
    h('button', { type: 'submit', class: 'primary', disabled: isEmpty, 'aria-disabled': isRunning }, 'Send'),
    h('button', { type: 'button', 'aria-disabled': !isRunning, onClick: stop }, 'Stop'),
  );
}
