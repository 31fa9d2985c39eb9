import { h } from 'preact';
import { useState } from 'preact/hooks';
import { fieldErrorsOf } from '../api/field-errors.ts';
import { latestTime, TextField } from '../controls/field.ts';
import { Failure } from '../page/failure.ts';
import { useDoing } from '../page/use-doing.ts';

const empty = { tokens: '', count: '1', expiresAt: '', note: '' };
type Draft = typeof empty;

/** `create` sends these fields of the API. */
export function CreateCodesForm({ create }: { create: (fields: object) => Promise<void> }) {
  const [draft, setDraft] = useState(empty);
  const doing = useDoing(async () => {
    await create(fieldsOf(draft));
    setDraft(empty);
  });
  const errors = fieldErrorsOf(doing.error, ['tokens', 'count', 'expires_at', 'note']);
  const field = (name: keyof Draft) => ({
    value: draft[name],
    change: (value: string) => setDraft((now) => ({ ...now, [name]: value })),
  });
  const whole = { type: 'number', min: 1, step: 1, required: true };
  return h(
    'form',
    { class: 'card', onSubmit: doing.run, 'aria-labelledby': 'create-codes-title' },
    h('h2', { id: 'create-codes-title' }, 'Create codes'),
    h('p', null, 'Each code adds its tokens to the month of the account that redeems it, once.'),
    h(
      'div',
      { class: 'fields' },
      h(TextField, { ...field('tokens'), label: 'Tokens of each code', error: errors.tokens, input: whole }),
      h(TextField, {
        ...field('count'),
        label: 'Number of codes',
        error: errors.count,
        input: { ...whole, max: 1_000 },
      }),
      h(TextField, {
        ...field('expiresAt'),
        label: 'Expires',
        hint: 'In your time zone. Empty: never.',
        error: errors.expires_at,
        input: { type: 'datetime-local', max: latestTime },
      }),
      h(TextField, {
        ...field('note'),
        label: 'Note',
        hint: 'Only operators see it.',
        error: errors.note,
        input: { maxLength: 500 },
      }),
    ),
    h('button', { type: 'submit', class: 'primary', 'aria-disabled': doing.busy }, 'Create'),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  );
}

function fieldsOf({ tokens, count, expiresAt, note }: Draft): object {
  return {
    tokens: Number(tokens),
    count: Number(count),
    ...(expiresAt !== '' && { expires_at: Math.floor(new Date(expiresAt).getTime() / 1000) }),
    ...(note.trim() !== '' && { note: note.trim() }),
  };
}
