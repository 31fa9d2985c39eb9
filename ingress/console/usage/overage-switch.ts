import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { PlanLimits } from '../../routes/plans.ts';
import type { Quota } from '../../routes/quota.ts';
import type { UsageReport } from '../../usage/usage-report.ts';
import type { Api } from '../api/api.ts';
import { fieldErrorsOf } from '../api/api-failure.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { ConfirmDialog, useDoing } from '../page/actions.ts';
import { TextField } from '../page/fields.ts';
import { formatCost, formatCount } from '../page/format.ts';
import { Failure } from '../page/loaded-view.ts';
import { OperatorLink } from '../page/product.ts';

type Props = {
  api: Api;
  quota: Quota;
  /** Undefined until it is loaded. */
  plan: PlanLimits | undefined;
  changed: () => void;
};

/** What overage means for the account, and a button for it unless the plan leaves it to operators. To turn it on is asked first. */
export function OverageSwitch({ api, quota, plan, changed }: Props) {
  const { overageEnabled, overageLimit, limit } = quota;
  const [said, setSaid] = useState('');
  const [isAsking, setAsking] = useState(false);
  async function set(body: OverageBody): Promise<void> {
    setSaid('');
    await api.call<Quota>('/billing/overage', { method: 'PATCH', body });
    setSaid(`Overage is ${body.enabled ? 'on' : 'off'}. Applies from your next request.`);
    changed();
  }
  const turningOff = useDoing(() => set({ enabled: false }));
  if (limit === null) return null;
  const bound = overageLimit === null ? 'without a limit' : `up to ${formatCount(overageLimit)} tokens a month`;
  return h(
    'section',
    { class: 'card', 'aria-labelledby': 'overage-title' },
    h('h2', { id: 'overage-title' }, 'Overage'),
    h(
      'p',
      null,
      overageEnabled
        ? `On. When the ${formatCount(limit)} tokens are used, requests continue and are charged, ${bound}.`
        : `Off. When the ${formatCount(limit)} tokens are used, requests fail with 402. Turn it on to continue and be charged.`,
    ),
    plan?.overage === 'operator'
      ? h(
          'p',
          null,
          'On your plan, ',
          h(OperatorLink, null, 'the operator of this service'),
          ' turns overage on and off.',
        )
      : h(
          'div',
          { class: 'actions' },
          overageEnabled
            ? h(
                'button',
                { type: 'button', 'aria-disabled': turningOff.busy, onClick: turningOff.run },
                'Turn overage off',
              )
            : h('button', { type: 'button', onClick: () => setAsking(true) }, 'Turn overage on'),
        ),
    h('p', { role: 'status', class: 'good' }, said),
    turningOff.error !== undefined && h(Failure, { error: turningOff.error }),
    isAsking &&
      h(OverageDialog, {
        api,
        limit,
        planMax: plan?.overageTokensPerMonth ?? null,
        set,
        close: () => setAsking(false),
      }),
  );
}

/** `tokens_max`: null is no limit beside that of the plan. */
type OverageBody = { enabled: false } | { enabled: true; tokens_max: number | null };

type DialogProps = {
  api: Api;
  limit: number;
  /** The bound of the plan. */
  planMax: number | null;
  set: (body: OverageBody) => Promise<void>;
  close: () => void;
};

function OverageDialog({ api, limit, planMax, set, close }: DialogProps) {
  const [typed, setTyped] = useState(String(usualMax(limit, planMax)));
  const [isUnbounded, setUnbounded] = useState(false);
  const [error, setError] = useState<unknown>();
  const price = useLoaded((signal) => api.call<UsageReport>('/billing/usage?group_by=model', { signal }), []);
  const max = Number(typed);
  const isNumber = /^\d{1,15}$/.test(typed) && max > 0;
  const about = price.value && isNumber ? costAbout(max, price.value) : undefined;
  async function run(): Promise<void> {
    await set({ enabled: true, tokens_max: isUnbounded ? null : max }).catch((refusal: unknown) => {
      setError(refusal);
      throw refusal;
    });
  }
  return h(
    ConfirmDialog,
    { title: 'Turn overage on?', action: 'Turn overage on', isReady: isUnbounded || isNumber, run, close },
    h('p', null, `Requests continue beyond ${formatCount(limit)} tokens, and are charged.`),
    !isUnbounded &&
      h(TextField, {
        label: 'Most this month, in tokens',
        hint:
          about === undefined
            ? 'Then requests fail with 402 again.'
            : `About ${about}, at your average price this month.`,
        value: typed,
        change: setTyped,
        error: fieldErrorsOf(error, ['tokens_max']).tokens_max,
        input: { inputMode: 'numeric', required: true, maxLength: 15 },
      }),
    h(
      'div',
      { class: 'options' },
      h(
        'label',
        null,
        h('input', {
          type: 'checkbox',
          checked: isUnbounded,
          onChange: ({ currentTarget }: { currentTarget: HTMLInputElement }) => setUnbounded(currentTarget.checked),
        }),
        planMax === null ? 'Without a limit' : `Up to the limit of the plan: ${formatCount(planMax)} tokens`,
      ),
    ),
  );
}

/** Half of the allowance, or what the plan allows. */
export function usualMax(limit: number, planMax: number | null): number {
  return Math.min(Math.max(1, Math.round(limit / 2)), planMax ?? Number.POSITIVE_INFINITY);
}

/** What so many tokens cost, if they are like those of the report. Undefined without usage that has a price. */
export function costAbout(
  tokens: number,
  { total, currency }: Pick<UsageReport, 'total' | 'currency'>,
): string | undefined {
  const { cost, promptTokens, completionTokens, unpricedTokens = 0 } = total;
  const priced = promptTokens + completionTokens - unpricedTokens;
  if (currency === undefined || cost === undefined || priced <= 0) return undefined;
  return formatCost((tokens * Number(cost)) / priced, currency);
}
