import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Account } from '../../openapi/answers.ts';
import { ConfirmDialog } from '../page/dialog.ts';
import { Failure } from '../page/failure.ts';
import { useDoing } from '../page/use-doing.ts';
import type { ChangeAccount } from './change-account.ts';

type Props = { account: Account; change: ChangeAccount };

export function OverageButton({ account: { overageEnabled }, change }: Props) {
  const doing = useDoing(() => change({ overageEnabled: !overageEnabled }));
  return h(
    'section',
    { class: 'card' },
    h('h3', null, 'Overage'),
    h(
      'p',
      null,
      overageEnabled
        ? 'On: past its allowance the account goes on, and what it uses is counted as overage.'
        : 'Off: past its allowance the account gets 402 quota_exceeded.',
    ),
    h(
      'button',
      { type: 'button', disabled: doing.busy, onClick: doing.run },
      overageEnabled ? 'Switch overage off' : 'Switch overage on',
    ),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  );
}

export function SuspendButton({ account: { account, suspended }, change }: Props) {
  const [isAsking, setAsking] = useState(false);
  return h(
    'section',
    { class: 'card' },
    h('h3', null, 'Suspension'),
    h('p', null, suspended ? 'Suspended: all its requests are 403 FORBIDDEN.' : 'Not suspended.'),
    h(
      'button',
      { type: 'button', class: suspended ? '' : 'danger', onClick: () => setAsking(true) },
      suspended ? 'Let it go on' : 'Suspend',
    ),
    isAsking &&
      h(
        ConfirmDialog,
        {
          title: suspended ? 'Let this account go on?' : 'Suspend this account?',
          action: suspended ? 'Let it go on' : 'Suspend',
          isDangerous: !suspended,
          run: () => change({ suspended: !suspended }),
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
      ),
  );
}
