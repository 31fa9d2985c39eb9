import { h } from 'preact';
import type { Model } from '../../routes/models.ts';
import type { FieldErrors } from '../api/field-errors.ts';
import { Choice } from '../controls/choice.ts';
import { Field, latestTime, TextField } from '../controls/field.ts';
import { LoadedView } from '../page/loaded-view.ts';
import type { LoadState } from '../page/use-loaded.ts';
import { type KeyDraft, type KeyFiles, limitNames, usualFiles } from './key-draft.ts';
import { offeredPaths } from './key-endpoints.ts';
import { ListChoice } from './list-choice.ts';

type Props = {
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

export function KeyFields({ draft, change, models, errors }: Props) {
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

function Choices({ draft, change, models, errors }: Omit<Props, 'models'> & { models: readonly Model[] }) {
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

function FilesField({ draft, change }: Pick<Props, 'draft' | 'change'>) {
  const usual = usualFiles(draft);
  return h(Choice<KeyFiles>, {
    legend: 'Files and batches',
    options: filesLabels,
    chosen: draft.files ?? usual,
    choose: (files) => change({ files: files === usual ? null : files }),
  });
}

function AddressField({ draft, change, errors }: Omit<Props, 'models'>) {
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

function LimitFields({ draft, change, errors }: Omit<Props, 'models'>) {
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
