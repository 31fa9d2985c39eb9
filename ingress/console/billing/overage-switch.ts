import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { PlanLimits } from '../../routes/plans.ts';
import type { Quota } from '../../routes/quota.ts';
import type { Api } from '../api/api.ts';
import { Failure } from '../page/failure.ts';
import { formatCount } from '../page/format.ts';
import { useDoing } from '../page/use-doing.ts';

type Props = {
  api: Api;
  quota: Quota;
  /** Undefined until it is loaded. */
  plan: PlanLimits | undefined;
  changed: () => void;
};

/** What overage means for the account, and a button for it unless the plan leaves it to operators. */
export function OverageSwitch({ api, quota: { overageEnabled, overageLimit, limit }, plan, changed }: Props) {
  const [said, setSaid] = useState('');
  const doing = useDoing(async () => {
    setSaid('');
    const wanted = !overageEnabled;
    await api.call<Quota>('/billing/overage', { method: 'PATCH', body: { enabled: wanted } });
    setSaid(`Overage is ${wanted ? 'on' : 'off'}. Applies from your next request.`);
    changed();
  });
  if (limit === null) return null;
  const bound = overageLimit === null ? 'without a limit' : `up to ${formatCount(overageLimit)} tokens a month`;
  const byOperator = plan?.overage === 'operator';
  return h(
    'section',
    { class: 'card', 'aria-labelledby': 'overage-title' },
    h('h2', { id: 'overage-title' }, 'Overage'),
    h(
      'p',
      null,
      overageEnabled
        ? `On: beyond the allowance your requests continue and are counted as overage, ${bound}.`
        : `Off: beyond the allowance your requests get 402 quota_exceeded. With overage they would continue, ${bound}.`,
    ),
    byOperator
      ? h('p', null, 'On your plan, the operator of this service turns overage on and off.')
      : h(
          'button',
          { type: 'button', 'aria-disabled': doing.busy, onClick: doing.run },
          overageEnabled ? 'Turn overage off' : 'Turn overage on',
        ),
    h('p', { role: 'status', class: 'good' }, said),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  );
}
