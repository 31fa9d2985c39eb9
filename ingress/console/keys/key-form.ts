import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Model } from '../../routes/models.ts';
import type { Key } from '../../routes/present-key.ts';
import type { Api } from '../api/api.ts';
import { type FieldErrors, fieldErrorsOf } from '../api/api-failure.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { ConfirmDialog } from '../page/actions.ts';
import { TextField } from '../page/fields.ts';
import { changesOf, draftOf, emptyDraft, type KeyDraft, limitNames } from './key-draft.ts';
import { KeyRestrictions } from './key-restrictions.ts';

type Props = {
  api: Api;
  /** The key to edit; undefined to create one. */
  shown?: Key;
  /** Sends these fields of the API. */
  save: (fields: Record<string, unknown>) => Promise<void>;
  close: () => void;
};

/** Fields of the API that a refusal can name. */
export const refusedFields: readonly string[] = [
  ...['name', 'expires_at', 'endpoints', 'models', 'allowed_ips', 'limits', 'files'],
  ...limitNames.map((name) => `limits.${name}`),
];

const firstRefused = '[aria-invalid], .refused input:checked';

/** A new key needs a name only. What restricts a key is below that, and open for a key that is changed. */
export function KeyForm({ api, shown, save, close }: Props) {
  const before = useRef(shown === undefined ? emptyDraft : draftOf(shown)).current;
  const [draft, setDraft] = useState<KeyDraft>(before);
  const [errors, setErrors] = useState<FieldErrors>({});
  const [isOpen, setOpen] = useState(shown !== undefined);
  const models = useLoaded((signal) => api.call<{ data: Model[] }>('/v1/models', { signal }), []);
  const part = useRef<HTMLDivElement>(null);
  useEffect(() => part.current?.querySelector<HTMLElement>(firstRefused)?.focus(), [errors]);
  const change = (fields: Partial<KeyDraft>) => setDraft((now) => ({ ...now, ...fields }));

  async function run(): Promise<void> {
    setErrors({});
    try {
      await save(changesOf(draft, before));
    } catch (error) {
      const found = fieldErrorsOf(error, refusedFields);
      if (Object.keys(found).some((name) => name !== 'name')) setOpen(true);
      setErrors(found);
      throw error;
    }
  }

  return h(
    ConfirmDialog,
    {
      title: shown === undefined ? 'Create a key' : `Edit "${shown.name}"`,
      action: shown === undefined ? 'Create' : 'Save',
      fields: refusedFields,
      run,
      close,
    },
    h(
      'div',
      { ref: part },
      h(TextField, {
        label: 'Name',
        hint: 'The program that uses the key.',
        value: draft.name,
        change: (name) => change({ name }),
        error: errors.name,
        input: { required: true, maxLength: 100 },
      }),
      h(
        'details',
        {
          class: 'restrictions',
          open: isOpen,
          // A field that the browser refuses must be visible to get the focus.
          onInvalidCapture: ({ currentTarget }: { currentTarget: HTMLDetailsElement }) => {
            currentTarget.open = true;
          },
          onToggle: ({ currentTarget }: { currentTarget: HTMLDetailsElement }) => setOpen(currentTarget.open),
        },
        h('summary', null, 'Restrict this key'),
        h(KeyRestrictions, { draft, change, models, errors }),
      ),
    ),
  );
}
