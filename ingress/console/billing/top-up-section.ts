import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Quota } from '../../routes/quota.ts';
import type { Api } from '../api/api.ts';
import { fieldErrorsOf } from '../api/field-errors.ts';
import { TextField } from '../controls/field.ts';
import { Failure } from '../page/failure.ts';
import { formatCount } from '../page/format.ts';
import { useDoing } from '../page/use-doing.ts';

type Props = {
  api: Api;
  /** Whether the address of the page names this section. */
  isGoal: boolean;
  changed: () => void;
};

/** Redeems a code. Also the target of the top-up link, if the operator has configured no other page. */
export function TopUpSection({ api, isGoal, changed }: Props) {
  const [code, setCode] = useState('');
  const [said, setSaid] = useState('');
  const doing = useDoing(async () => {
    setSaid('');
    const { topUp } = await api.call<Quota>('/billing/top-ups', { method: 'POST', body: { code } });
    setCode('');
    setSaid(`The code is redeemed. Top-ups of this month: ${formatCount(topUp)} tokens.`);
    changed();
  });
  return h(
    'section',
    { class: isGoal ? 'notice' : 'card', 'aria-labelledby': 'top-up-title' },
    h('h2', { id: 'top-up-title', ...(isGoal && { 'data-goal': true }), tabIndex: -1 }, 'Top up'),
    h(
      'p',
      null,
      'Redeem a code to add its tokens to your month. Without a code, ask the operator of this service, and name your account as shown at the top of this page. Added tokens are available immediately, until the reset date.',
    ),
    h(
      'form',
      { onSubmit: doing.run },
      h(TextField, {
        label: 'Code',
        hint: 'TOPUP- and 30 letters and digits, in any case.',
        value: code,
        change: setCode,
        error: fieldErrorsOf(doing.error, ['code']).code,
        input: { required: true, maxLength: 100, spellcheck: false, autocapitalize: 'characters' },
      }),
      h('button', { type: 'submit', class: 'primary', 'aria-disabled': doing.busy }, 'Redeem'),
    ),
    h('p', { role: 'status', class: 'good' }, said),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  );
}
