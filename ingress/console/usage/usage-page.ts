import { h } from 'preact';
import type { PlanLimits } from '../../routes/plans.ts';
import type { Key } from '../../routes/present-key.ts';
import type { Quota } from '../../routes/quota.ts';
import type { Api } from '../api/api.ts';
import { OverageSwitch } from '../billing/overage-switch.ts';
import { TopUpSection } from '../billing/top-up-section.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { PlanLimitsView } from './plan-limits.ts';
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
    h(LoadedView<Quota>, {
      loaded: quota,
      what: 'your quota',
      children: (value) => [
        h(QuotaView, { quota: value }),
        h(OverageSwitch, { api, quota: value, plan: plan.value, changed: quota.reload }),
      ],
    }),
    h(UsageReportView, { api, path: '/billing/usage', keyNames, refreshed: quota.reload }),
    h('h2', null, 'Limits of your plan'),
    h(LoadedView<PlanLimits>, {
      loaded: plan,
      what: 'your plan',
      children: (value) => h(PlanLimitsView, { plan: value }),
    }),
    h(TopUpSection, { api, isGoal: isTopUp, changed: quota.reload }),
  ];
}
