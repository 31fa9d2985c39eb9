import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Account } from '../../openapi/answers.ts';
import { Failure } from '../page/failure.ts';
import { useDoing } from '../page/use-doing.ts';
import type { ChangeAccount } from './change-account.ts';

type Props = { account: Account; plans: readonly string[]; change: ChangeAccount };

export function PlanForm({ account, plans, change }: Props) {
  const [plan, setPlan] = useState(account.plan);
  const doing = useDoing(() => change({ plan }));
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
        // The plan that it has may have gone from the plan file.
        [...new Set([account.plan, ...plans])].map((name) => h('option', { key: name, value: name }, name)),
      ),
    ),
    h('button', { type: 'submit', class: 'primary', disabled: doing.busy || plan === account.plan }, 'Change the plan'),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  );
}
