import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Model } from '../../routes/models.ts';
import type { Key } from '../../routes/present-key.ts';
import type { Api } from '../api/api.ts';
import { type FieldErrors, fieldErrorsOf } from '../api/field-errors.ts';
import { ConfirmDialog } from '../controls/confirm-dialog.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { changesOf, draftOf, emptyDraft, type KeyDraft } from './key-draft.ts';
import { KeyFields, refusedFields } from './key-fields.ts';

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
