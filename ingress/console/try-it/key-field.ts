import { h } from 'preact';
import { useEffect } from 'preact/hooks';
import type { FullKey } from '../keys/held-keys.ts';
import type { Trial } from './use-trial.ts';

type Props = {
  trial: Trial;
  /** Keys that were created since the console was opened, newest first. */
  keys: readonly FullKey[];
  /** Which of them is in the field. */
  known: FullKey | undefined;
};

/** The key to call with. It starts with the newest one that was created here. */
export function KeyField({ trial, keys: [newest], known }: Props) {
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
