import { h } from 'preact';
import { useState } from 'preact/hooks';
import { Failure } from '../page/failure.ts';
import { useDoing } from '../page/use-doing.ts';
import type { ChangeAccount } from './change-account.ts';
import { ReasonField } from './reason-field.ts';

/** Each id is applied once, so a retry after a lost response does not add the tokens twice. */
export function TopUpForm({ change }: { change: ChangeAccount }) {
  const [tokens, setTokens] = useState('');
  const [id, setId] = useState(newId);
  const [reason, setReason] = useState('');
  const doing = useDoing(async () => {
    await change({ topUp: { id, tokens: Number(tokens) } }, reason);
    setTokens('');
    setReason('');
    setId(newId());
  });
  return h(
    'form',
    { class: 'card', onSubmit: doing.run },
    h('h3', null, 'Top up this month'),
    h(
      'label',
      null,
      'Tokens to add',
      h('input', {
        type: 'number',
        min: 1,
        step: 1,
        required: true,
        value: tokens,
        onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => setTokens(currentTarget.value),
      }),
    ),
    h(
      'label',
      null,
      'ID (applied once)',
      h('input', {
        type: 'text',
        required: true,
        maxLength: 128,
        pattern: '[!-~]+',
        title: 'visible ASCII characters',
        value: id,
        onInput: ({ currentTarget }: { currentTarget: HTMLInputElement }) => setId(currentTarget.value),
      }),
    ),
    h(ReasonField, { reason, setReason }),
    h('button', { type: 'submit', class: 'primary', 'aria-disabled': doing.busy }, 'Top up'),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  );
}

function newId(): string {
  return `console-${crypto.randomUUID()}`;
}
