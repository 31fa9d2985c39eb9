import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Model } from '../../routes/models.ts';
import type { FieldErrors } from '../api/api-failure.ts';
import type { LoadState } from '../api/use-loaded.ts';
import { Choice, Field, ListChoice, latestTime, TextField } from '../page/fields.ts';
import { formatTime } from '../page/format.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { type KeyDraft, type KeyFiles, limitNames, localTime, usualFiles } from './key-draft.ts';

type Props = {
  draft: KeyDraft;
  change: (part: Partial<KeyDraft>) => void;
  /** Those of the plan. */
  models: LoadState<{ data: Model[] }>;
  errors: FieldErrors;
};

/** What a key may be used for, and until when. Nothing of it has to be filled in. */
export function KeyRestrictions({ draft, change, models, errors }: Props) {
  return [
    h(ExpiryField, { draft, change, errors }),
    h(LoadedView<{ data: Model[] }>, {
      loaded: models,
      what: 'the models of your plan',
      lines: 4,
      children: ({ data }) => h(Choices, { draft, change, models: data, errors }),
    }),
    h(AddressField, { draft, change, errors }),
    h(LimitFields, { draft, change, errors }),
    h(FilesField, { draft, change }),
  ];
}

type FieldProps = Omit<Props, 'models'>;

const terms = { never: 'never', week: '7 days', month: '30 days', quarter: '90 days', date: 'a date' };
type Term = keyof typeof terms;
const daysOf: Partial<Record<Term, number>> = { week: 7, month: 30, quarter: 90 };
const secondsOfDay = 86_400;

function ExpiryField({ draft, change, errors }: FieldProps) {
  const [term, setTerm] = useState<Term>(draft.expiresAt === '' ? 'never' : 'date');
  const choose = (chosen: Term) => {
    const days = daysOf[chosen];
    setTerm(chosen);
    if (days !== undefined) change({ expiresAt: localTime(Date.now() / 1_000 + days * secondsOfDay) });
    if (chosen === 'never') change({ expiresAt: '' });
  };
  return h(
    'div',
    { class: 'field' },
    h(Choice<Term>, { legend: 'Expires', options: terms, chosen: term, choose }),
    daysOf[term] !== undefined && h('p', { class: 'quiet' }, `On ${formatTime(draft.expiresAt)}.`),
    term === 'date' &&
      h(TextField, {
        label: 'Expires on',
        hint: 'In your time zone.',
        value: draft.expiresAt,
        change: (expiresAt) => change({ expiresAt }),
        error: errors.expires_at,
        input: { type: 'datetime-local', max: latestTime, required: true },
      }),
  );
}

function Choices({ draft, change, models, errors }: FieldProps & { models: readonly Model[] }) {
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

function AddressField({ draft, change, errors }: FieldProps) {
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

const limitLabels = {
  requests_per_minute: 'Requests per minute',
  tokens_per_minute: 'Tokens per minute',
  tokens_per_month: 'Tokens per month',
};

function LimitFields({ draft, change, errors }: FieldProps) {
  return h(
    'fieldset',
    { class: 'limits' },
    h('legend', null, 'Limits of this key'),
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
          input: { type: 'number', min: 1, step: 1, placeholder: 'plan' },
        }),
      ),
    ),
  );
}

const filesLabels: Record<KeyFiles, string> = {
  none: 'none',
  own: 'its own',
  read: 'reads all',
  all: 'all',
};

function FilesField({ draft, change }: Pick<Props, 'draft' | 'change'>) {
  const usual = usualFiles(draft);
  return h(Choice<KeyFiles>, {
    legend: 'Files and batches',
    options: filesLabels,
    chosen: draft.files ?? usual,
    choose: (files) => change({ files: files === usual ? null : files }),
  });
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
