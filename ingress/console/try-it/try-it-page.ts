import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Model } from '../../api/response-schemas.ts';
import type { Api } from '../api/api.ts';
import { Failure } from '../page/failure.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { AnswerView } from './answer-view.ts';
import { type ChatRequest, type Draft, requestOf } from './chat-request.ts';
import { CodeView } from './code-view.ts';
import { MessageFields } from './message-fields.ts';
import { type Answer, streamAnswer } from './stream-answer.ts';

type Run = { name: 'idle' | 'running' | 'stopped' | 'done' } | { name: 'failed'; error: unknown };

/** Runs one chat completion with a pasted API key. The key stays in its field: it is not stored and not shown in the code. */
export function TryItPage({ api, baseUrl }: { api: Api; baseUrl: string }) {
  const models = useLoaded((signal) => api.call<{ data: Model[] }>('/v1/models', { signal }), []);
  return [
    h('h1', { tabIndex: -1 }, 'Try it'),
    h(LoadedView<{ data: Model[] }>, {
      loaded: models,
      what: 'the models of your plan',
      children: ({ data }) =>
        data.length === 0
          ? h('p', { class: 'empty' }, 'Your plan includes no models.')
          : h(TryIt, { models: data.map(({ id }) => id), baseUrl }),
    }),
  ];
}

const firstMessages: Draft['messages'] = [{ role: 'user', content: 'Say hello in three languages.' }];

function TryIt({ models, baseUrl }: { models: readonly string[]; baseUrl: string }) {
  const [draft, setDraft] = useState<Draft>({ model: models[0] ?? '', messages: firstMessages, maxTokens: '' });
  const [run, setRun] = useState<Run>({ name: 'idle' });
  const [answer, setAnswer] = useState<Answer>();
  const key = useRef<HTMLInputElement>(null);
  const stop = useRef(() => {});
  useEffect(() => () => stop.current(), []);
  const change = (part: Partial<Draft>) => setDraft((before) => ({ ...before, ...part }));
  const request = requestOf(draft);

  async function send(event: Event): Promise<void> {
    event.preventDefault();
    if (run.name === 'running') return;
    const aborting = new AbortController();
    stop.current = () => aborting.abort();
    setRun({ name: 'running' });
    setAnswer(undefined);
    const call = { baseUrl, key: key.current?.value.trim() ?? '', request, signal: aborting.signal };
    try {
      await streamAnswer({ ...call, show: (shown) => aborting.signal.aborted || setAnswer(shown) });
      setRun({ name: 'done' });
    } catch (error) {
      setRun(aborting.signal.aborted ? { name: 'stopped' } : { name: 'failed', error });
    }
  }

  return [
    h(
      'form',
      { onSubmit: (event: Event) => void send(event) },
      h('div', { class: 'fields' }, h(KeyField, { field: key }), h(ModelFields, { models, draft, change })),
      h(MessageFields, { messages: draft.messages, change: (messages) => change({ messages }) }),
      h(Buttons, { request, isRunning: run.name === 'running', stop: () => stop.current() }),
    ),
    h(AnswerView, { state: run.name, answer }),
    run.name === 'failed' && h(Failure, { error: run.error }),
    h(CodeView, { request, baseUrl }),
  ];
}

type ModelFieldsProps = { models: readonly string[]; draft: Draft; change: (part: Partial<Draft>) => void };

function ModelFields({ models, draft, change }: ModelFieldsProps) {
  return [
    h(
      'label',
      null,
      'Model',
      h(
        'select',
        { value: draft.model, onChange: (event: Event) => change({ model: fieldValue(event) }) },
        models.map((model) => h('option', { key: model, value: model }, model)),
      ),
    ),
    h(
      'label',
      null,
      'Max output tokens',
      h('input', {
        type: 'number',
        min: 1,
        value: draft.maxTokens,
        placeholder: 'model limit',
        onInput: (event: Event) => change({ maxTokens: fieldValue(event) }),
      }),
    ),
  ];
}

function KeyField({ field }: { field: { current: HTMLInputElement | null } }) {
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
    h('span', { class: 'quiet', id: 'key-hint' }, 'Not stored: the key is lost when you leave this page.'),
  );
}

function Buttons({ request, isRunning, stop }: { request: ChatRequest; isRunning: boolean; stop: () => void }) {
  return h(
    'div',
    { class: 'actions' },
    h(
      'button',
      { type: 'submit', class: 'primary', disabled: request.messages.length === 0, 'aria-disabled': isRunning },
      'Send',
    ),
    h('button', { type: 'button', 'aria-disabled': !isRunning, onClick: stop }, 'Stop'),
  );
}

function fieldValue({ currentTarget }: Event): string {
  return (currentTarget as HTMLInputElement | HTMLSelectElement).value; // used on these elements only
}
