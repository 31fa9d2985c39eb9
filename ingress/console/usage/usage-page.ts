import { h } from 'preact';
import type { PlanLimits, Quota } from '../../api/response-schemas.ts';
import type { Api } from '../api/api.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { MonthOfUsage } from './month-of-usage.ts';
import { PlanTable } from './plan-table.ts';
import { QuotaView } from './quota-view.ts';

/** Where the account's month stands, what it was spent on, and what its plan allows. */
export function UsagePage({ api, isTopUp }: { api: Api; isTopUp: boolean }) {
  const quota = useLoaded((signal) => api.call<Quota>('/billing/quota', { signal }), []);
  const plan = useLoaded((signal) => api.call<PlanLimits>('/billing/plan', { signal }), []);
  return [
    h('h1', { tabIndex: -1 }, 'Usage'),
    h(LoadedView<Quota>, { loaded: quota, what: 'your quota', children: (value) => h(QuotaView, { quota: value }) }),
    isTopUp && h(TopUp, null),
    h('h2', null, 'Limits of your plan'),
    h(LoadedView<PlanLimits>, { loaded: plan, what: 'your plan', children: (value) => h(PlanTable, { plan: value }) }),
    h(MonthOfUsage, {
      load: (month, signal) => api.call(`/billing/usage?month=${month}`, { signal }),
      refreshed: quota.reload,
    }),
  ];
}

/** What the link of a spent quota leads to where the operator has named no page of their own. */
function TopUp() {
  return h(
    'section',
    { class: 'notice', 'aria-labelledby': 'top-up-title' },
    h('h2', { id: 'top-up-title', 'data-goal': true, tabIndex: -1 }, 'Top up'),
    h(
      'p',
      null,
      'Whoever runs this service adds tokens to your month, or lets you go on past it (overage). Ask them, and name your account as it is shown at the top of this page. What is added counts at once, until the reset date.',
    ),
  );
}
