import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Model } from '../../routes/models.ts';
import type { Key } from '../../routes/present-key.ts';
import type { Api } from '../api/api.ts';
import { type FieldErrors, fieldErrorsOf } from '../api/api-failure.ts';
import { type LoadState, useLoaded } from '../api/use-loaded.ts';
import { ConfirmDialog } from '../page/actions.ts';
import { Choice, Field, ListChoice, latestTime, TextField } from '../page/fields.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { changesOf, draftOf, emptyDraft, type KeyDraft, type KeyFiles, limitNames, usualFiles } from './key-draft.ts';

type Props = {
  api: Api;
  /** The key to edit; undefined to create one. */
  shown?: Key;
  /** Sends these fields of the API. */
  save: (fields: Record<string, unknown>) => Promise<void>;
  close: () => void;
};

/** The settings of a key, to create it or to change it. */
export function KeyForm({ api, shown, save, close }: Props) {
  const before = useRef(shown === undefined ? emptyDraft : draftOf(shown)).current;
  const [draft, setDraft] = useState<KeyDraft>(before);
  const [errors, setErrors] = useState<FieldErrors>({});
  const models = useLoaded((signal) => api.call<{ data: Model[] }>('/v1/models', { signal }), []);
  const part = useRef<HTMLDivElement>(null);
  useEffect(() => part.current?.querySelector<HTMLElement>(firstRefused)?.focus(), [errors]);

  async function run(): Promise<void> {
    setErrors({});
    try {
      await save(changesOf(draft, before));
    } catch (error) {
      setErrors(fieldErrorsOf(error, refusedFields));
      throw error;
    }
  }

  const title = shown === undefined ? 'Create a key' : `Edit "${shown.name}"`;
  return h(
    ConfirmDialog,
    { title, action: shown === undefined ? 'Create' : 'Save', run, close },
    h(
      'div',
      { ref: part },
      h(KeyFields, { draft, change: (fields) => setDraft((now) => ({ ...now, ...fields })), models, errors }),
    ),
  );
}

const firstRefused = '[aria-invalid], .refused input:checked';

type KeyFieldsProps = {
  draft: KeyDraft;
  change: (part: Partial<KeyDraft>) => void;
  /** Those of the plan. */
  models: LoadState<{ data: Model[] }>;
  errors: FieldErrors;
};

/** Fields of the API that a refusal can name. */
export const refusedFields: readonly string[] = [
  ...['name', 'expires_at', 'endpoints', 'models', 'allowed_ips', 'limits', 'files'],
  ...limitNames.map((name) => `limits.${name}`),
];

const limitLabels = {
  requests_per_minute: 'Requests per minute',
  tokens_per_minute: 'Tokens per minute',
  tokens_per_month: 'Tokens per month',
};

function KeyFields({ draft, change, models, errors }: KeyFieldsProps) {
  return [
    h(TextField, {
      label: 'Name',
      hint: 'The program that uses the key.',
      value: draft.name,
      change: (name) => change({ name }),
      error: errors.name,
      input: { required: true, maxLength: 100 },
    }),
    h(TextField, {
      label: 'Expires',
      hint: 'In your time zone. Empty: never.',
      value: draft.expiresAt,
      change: (expiresAt) => change({ expiresAt }),
      error: errors.expires_at,
      input: { type: 'datetime-local', max: latestTime },
    }),
    h(LoadedView<{ data: Model[] }>, {
      loaded: models,
      what: 'the models of your plan',
      children: ({ data }) => h(Choices, { draft, change, models: data, errors }),
    }),
    h(FilesField, { draft, change }),
    h(AddressField, { draft, change, errors }),
    h(LimitFields, { draft, change, errors }),
  ];
}

function Choices({ draft, change, models, errors }: Omit<KeyFieldsProps, 'models'> & { models: readonly Model[] }) {
  return [
    h(ListChoice, {
      legend: 'Endpoints',
      all: 'All',
      offered: offeredPaths(models),
      chosen: draft.endpoints,
      choose: (endpoints) => change({ endpoints }),
      error: errors.endpoints,
    }),
    h(ListChoice, {
      legend: 'Models',
      all: 'All of the plan',
      offered: models.map(({ id }) => id),
      chosen: draft.models,
      choose: (chosen) => change({ models: chosen }),
      error: errors.models,
    }),
  ];
}

const filesLabels: Record<KeyFiles, string> = {
  none: 'none',
  own: 'those that it makes',
  read: 'those that it makes, and reads all others',
  all: 'all',
};

function FilesField({ draft, change }: Pick<KeyFieldsProps, 'draft' | 'change'>) {
  const usual = usualFiles(draft);
  return h(Choice<KeyFiles>, {
    legend: 'Files and batches',
    options: filesLabels,
    chosen: draft.files ?? usual,
    choose: (files) => change({ files: files === usual ? null : files }),
  });
}

function AddressField({ draft, change, errors }: Omit<KeyFieldsProps, 'models'>) {
  return h(Field, {
    label: 'Allowed addresses',
    hint: 'IP addresses or ranges like 192.0.2.0/24, one in each line. Empty: any address.',
    error: errors.allowed_ips,
    children: (attributes) =>
      h('textarea', {
        ...attributes,
        rows: 2,
        spellcheck: false,
        value: draft.allowedIps,
        onInput: ({ currentTarget }: { currentTarget: HTMLTextAreaElement }) =>
          change({ allowedIps: currentTarget.value }),
      }),
  });
}

function LimitFields({ draft, change, errors }: Omit<KeyFieldsProps, 'models'>) {
  return h(
    'fieldset',
    null,
    h('legend', null, 'Limits of this key'),
    h('p', { class: 'quiet' }, 'The limits of your plan apply in any case. Empty: no limit of its own.'),
    errors.limits && h('p', { class: 'wrong' }, errors.limits),
    h(
      'div',
      { class: 'fields' },
      limitNames.map((name) =>
        h(TextField, {
          key: name,
          label: limitLabels[name],
          value: draft.limits[name],
          change: (value) => change({ limits: { ...draft.limits, [name]: value } }),
          error: errors[`limits.${name}`],
          input: { type: 'number', min: 1, step: 1 },
        }),
      ),
    ),
  );
}

/** The paths of each endpoint, by its name in the plan file. A key names endpoints by their paths, a model by their names. */
export const endpointPaths: Readonly<Record<string, readonly string[]>> = {
  chat: ['/v1/chat/completions'],
  completions: ['/v1/completions'],
  embeddings: ['/v1/embeddings'],
  responses: ['/v1/responses'],
  messages: ['/v1/messages', '/v1/messages/count_tokens'],
  rerank: ['/v1/rerank'],
};

/** The paths of the endpoints that at least one of these models offers. */
export function offeredPaths(models: readonly Model[]): string[] {
  const names = new Set(models.flatMap(({ endpoints }) => endpoints));
  return Object.entries(endpointPaths).flatMap(([name, paths]) => (names.has(name) ? paths : []));
}
