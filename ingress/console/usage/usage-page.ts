import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { PlanLimits } from '../../routes/plans.ts';
import type { Key } from '../../routes/present-key.ts';
import type { Quota } from '../../routes/quota.ts';
import type { Api } from '../api/api.ts';
import { beyondFields, fieldErrorsOf } from '../api/api-failure.ts';
import { useLoaded } from '../api/use-loaded.ts';
import { useDoing } from '../page/actions.ts';
import { type UsageFilter, usageLink } from '../page/console-route.ts';
import { TextField } from '../page/fields.ts';
import { formatCount, formatLimit } from '../page/format.ts';
import { Failure, LoadedView } from '../page/loaded-view.ts';
import { OperatorLink } from '../page/product.ts';
import type { Figure } from '../page/table.ts';
import { OverageSwitch } from './overage-switch.ts';
import { QuotaView } from './quota-view.ts';
import { UsageReportView } from './report-view.ts';

type PageProps = { api: Api; filter: UsageFilter };

/** The quota, usage and plan limits of the account. */
export function UsagePage({ api, account, filter, isTopUp }: PageProps & { account: string; isTopUp: boolean }) {
  const quota = useLoaded((signal) => api.call<Quota>('/billing/quota', { signal }), []);
  const plan = useLoaded((signal) => api.call<PlanLimits>('/billing/plan', { signal }), []);
  // Without names, keys are shown by their ids.
  const keys = useLoaded((signal) => api.call<{ data: Key[] }>('/v1/keys', { signal }), []);
  const keyNames = new Map(keys.value?.data.map(({ id, name }) => [id, name]));
  return [
    h('h1', { tabIndex: -1 }, 'Usage'),
    h(LoadedView<Quota>, {
      loaded: quota,
      what: 'your quota',
      lines: 9,
      children: (value) => [
        h(QuotaView, { quota: value }),
        h(OverageSwitch, { api, quota: value, plan: plan.value, changed: quota.reload }),
      ],
    }),
    h(UsageReportView, {
      api,
      path: '/billing/usage',
      filter,
      choose: chooseOn('usage'),
      keyNames,
      requestsOf: {},
      refreshed: quota.reload,
    }),
    h('h2', null, 'Limits of your plan'),
    h(LoadedView<PlanLimits>, {
      loaded: plan,
      what: 'your plan',
      lines: 6,
      children: (value) => h(PlanLimitsView, { plan: value }),
    }),
    h(TopUpSection, { api, account, isGoal: isTopUp, changed: quota.reload }),
  ];
}

/** The address keeps what is chosen, so that a link and Back lead to it. */
function chooseOn(page: Parameters<typeof usageLink>[1]) {
  return (filter: UsageFilter) => {
    window.location.hash = usageLink(filter, page);
  };
}

/** The usage of all accounts: at first those that have used most. */
export function AllUsagePage({ api, filter }: PageProps) {
  return [
    h('h1', { tabIndex: -1 }, 'Usage of all accounts'),
    h(UsageReportView, { api, path: '/admin/usage', filter, choose: chooseOn('all-usage'), isOfAll: true }),
  ];
}

/** The limits and models of a plan. */
function PlanLimitsView({ plan }: { plan: PlanLimits }) {
  const figures: Figure[] = [
    ['Plan', plan.plan],
    ['Requests per minute', formatLimit(plan.requestsPerMinute)],
    ['Tokens per minute', formatLimit(plan.tokensPerMinute)],
    ['Requests at once', formatLimit(plan.requestsAtOnce)],
    ['Requests per day', formatLimit(plan.requestsPerDay)],
    ['Tokens per month', formatLimit(plan.tokensPerMonth)],
    ['Overage per month', formatLimit(plan.overageTokensPerMonth)],
    ['Overage is turned on by', plan.overage === 'operator' ? 'the operator' : 'you'],
    ['Batch lines at once', formatLimit(plan.batchRequestsAtOnce)],
    ['Tokens in waiting batches', formatLimit(plan.batchTokensWaiting)],
    ['Models', plan.models.join(', ')],
  ];
  return h(
    'dl',
    { class: 'facts two' },
    figures.map(([term, value]) => h('div', { key: term }, h('dt', null, term), h('dd', null, value))),
  );
}

type TopUpProps = {
  api: Api;
  account: string;
  /** Whether the address of the page names this section. */
  isGoal: boolean;
  changed: () => void;
};

/** Redeems a code. Also the target of the top-up link, if the operator has configured no other page. */
function TopUpSection({ api, account, isGoal, changed }: TopUpProps) {
  const [code, setCode] = useState('');
  const [said, setSaid] = useState('');
  const doing = useDoing(async () => {
    setSaid('');
    const { topUp } = await api.call<Quota>('/billing/top-ups', { method: 'POST', body: { code } });
    setCode('');
    setSaid(`The code is redeemed. Top-ups of this month: ${formatCount(topUp)} tokens.`);
    changed();
  });
  const error = beyondFields(doing.error, ['code']);
  return h(
    'section',
    { class: isGoal ? 'notice' : 'card', 'aria-labelledby': 'top-up-title' },
    h('h2', { id: 'top-up-title', ...(isGoal && { 'data-goal': true }), tabIndex: -1 }, 'Top up'),
    h(
      'p',
      null,
      'Redeem a code to add its tokens to your month. Without a code, ',
      h(OperatorLink, null, 'ask the operator of this service'),
      ', and name your account, ',
      h('code', null, account),
      '. Added tokens are available immediately, until the reset date.',
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
    error !== undefined && h(Failure, { error }),
  );
}
