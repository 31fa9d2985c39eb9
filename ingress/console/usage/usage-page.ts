import { h } from 'preact';
import type { PlanLimits, Quota } from '../../api/response-schemas.ts';
import type { Key } from '../../routes/keys/key-schemas.ts';
import type { Api } from '../api/api.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { PlanTable } from './plan-table.ts';
import { QuotaView } from './quota-view.ts';
import { UsageReportView } from './usage-report.ts';

/** The quota, usage and plan limits of the account. */
export function UsagePage({ api, isTopUp }: { api: Api; isTopUp: boolean }) {
  const quota = useLoaded((signal) => api.call<Quota>('/billing/quota', { signal }), []);
  const plan = useLoaded((signal) => api.call<PlanLimits>('/billing/plan', { signal }), []);
  // Without names, keys are shown by their ids.
  const keys = useLoaded((signal) => api.call<{ data: Key[] }>('/v1/keys?limit=100', { signal }), []);
  const keyNames = new Map(keys.value?.data.map(({ id, name }) => [id, name]));
  return [
    h('h1', { tabIndex: -1 }, 'Usage'),
    h(LoadedView<Quota>, { loaded: quota, what: 'your quota', children: (value) => h(QuotaView, { quota: value }) }),
    isTopUp && h(TopUp, null),
    h('h2', null, 'Limits of your plan'),
    h(LoadedView<PlanLimits>, { loaded: plan, what: 'your plan', children: (value) => h(PlanTable, { plan: value }) }),
    h(UsageReportView, { api, path: '/billing/usage', keyNames, refreshed: quota.reload }),
  ];
}

/** Target of the top-up link if the operator has configured no page. */
function TopUp() {
  return h(
    'section',
    { class: 'notice', 'aria-labelledby': 'top-up-title' },
    h('h2', { id: 'top-up-title', 'data-goal': true, tabIndex: -1 }, 'Top up'),
    h(
      'p',
      null,
      'The operator of this service can add tokens to your month, or allow usage beyond it (overage). Ask the operator, and name your account as shown at the top of this page. Added tokens are available immediately, until the reset date.',
    ),
  );
}
