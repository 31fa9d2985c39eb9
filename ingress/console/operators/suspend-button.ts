import { h } from 'preact';
import { useState } from 'preact/hooks';
import { ConfirmDialog } from '../controls/confirm-dialog.ts';
import type { AccountFormProps } from './change-account.ts';
import { ReasonField } from './reason-field.ts';

export function SuspendButton({ account: { account, suspended }, change }: AccountFormProps) {
  const [isAsking, setAsking] = useState(false);
  const [reason, setReason] = useState('');
  const ask = () => {
    setReason('');
    setAsking(true);
  };
  return h(
    'section',
    { class: 'card' },
    h('h3', null, 'Suspension'),
    h('p', null, suspended ? 'Suspended: all requests get 403 FORBIDDEN.' : 'Not suspended.'),
    h('button', { type: 'button', class: suspended ? '' : 'danger', onClick: ask }, suspended ? 'Resume' : 'Suspend'),
    isAsking &&
      h(
        ConfirmDialog,
        {
          title: suspended ? 'Resume this account?' : 'Suspend this account?',
          action: suspended ? 'Resume' : 'Suspend',
          isDangerous: !suspended,
          run: () => change({ suspended: !suspended }, reason),
          close: () => setAsking(false),
        },
        h('p', null, h('code', null, account)),
        h(
          'p',
          null,
          suspended
            ? 'Its requests are admitted again, and its batches continue.'
            : 'From the next request on, all its requests get 403 FORBIDDEN, and its batches pause.',
        ),
        h(ReasonField, { reason, setReason }),
      ),
  );
}
