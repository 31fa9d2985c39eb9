import { h } from 'preact';
import { useState } from 'preact/hooks';
import { Failure } from '../page/failure.ts';
import { useDoing } from '../page/use-doing.ts';
import type { AccountFormProps } from './change-account.ts';
import { ReasonField } from './reason-field.ts';

export function PlanForm({ account, plans, change }: AccountFormProps & { plans: readonly string[] }) {
  const [plan, setPlan] = useState(account.plan);
  const [reason, setReason] = useState('');
  const doing = useDoing(async () => {
    await change({ plan }, reason);
    setReason('');
  });
  return h(
    'form',
    { class: 'card', onSubmit: doing.run },
    h('h3', null, 'Plan'),
    h(
      'label',
      null,
      'Plan of the account',
      h(
        'select',
        {
          value: plan,
          onChange: ({ currentTarget }: { currentTarget: HTMLSelectElement }) => setPlan(currentTarget.value),
        },
        // The current plan may no longer be in the plan file.
        [...new Set([account.plan, ...plans])].map((name) => h('option', { key: name, value: name }, name)),
      ),
    ),
    h(ReasonField, { reason, setReason }),
    h(
      'button',
      { type: 'submit', class: 'primary', disabled: plan === account.plan, 'aria-disabled': doing.busy },
      'Change the plan',
    ),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  );
}
