import { h } from 'preact';
import { useState } from 'preact/hooks';
import { ConfirmDialog } from '../page/confirm-dialog.ts';
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
    h('p', null, suspended ? 'Suspended: all its requests are 403 FORBIDDEN.' : 'Not suspended.'),
    h(
      'button',
      { type: 'button', class: suspended ? '' : 'danger', onClick: ask },
      suspended ? 'Let it go on' : 'Suspend',
    ),
    isAsking &&
      h(
        ConfirmDialog,
        {
          title: suspended ? 'Let this account go on?' : 'Suspend this account?',
          action: suspended ? 'Let it go on' : 'Suspend',
          isDangerous: !suspended,
          run: () => change({ suspended: !suspended }, reason),
          close: () => setAsking(false),
        },
        h('p', null, h('code', null, account)),
        h(
          'p',
          null,
          suspended
            ? 'Its requests are let in again, and its batches go on.'
            : 'From its next request on everything it asks is 403 FORBIDDEN, and its batches stand still.',
        ),
        h(ReasonField, { reason, setReason }),
      ),
  );
}
