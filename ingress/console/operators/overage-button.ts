import { h } from 'preact';
import { useState } from 'preact/hooks';
import { Failure } from '../page/failure.ts';
import { useDoing } from '../page/use-doing.ts';
import type { AccountFormProps } from './change-account.ts';
import { ReasonField } from './reason-field.ts';

export function OverageButton({ account: { overageEnabled }, change }: AccountFormProps) {
  const [reason, setReason] = useState('');
  const doing = useDoing(async () => {
    await change({ overageEnabled: !overageEnabled }, reason);
    setReason('');
  });
  return h(
    'section',
    { class: 'card' },
    h('h3', null, 'Overage'),
    h(
      'p',
      null,
      overageEnabled
        ? 'On: requests beyond the allowance are admitted and counted as overage.'
        : 'Off: requests beyond the allowance get 402 quota_exceeded.',
    ),
    h(ReasonField, { reason, setReason }),
    h(
      'button',
      { type: 'button', 'aria-disabled': doing.busy, onClick: doing.run },
      overageEnabled ? 'Turn overage off' : 'Turn overage on',
    ),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  );
}
