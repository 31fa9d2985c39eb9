import { h } from 'preact';
import type { Account } from '../../routes/accounts.ts';
import type { LimitsInUse, Quota } from '../../routes/quota.ts';
import type { Api } from '../api/api.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded, usePolled } from '../page/use-loaded.ts';
import { LimitMeters } from '../panels/limit-meters.ts';
import { MonthCard } from '../panels/month-card.ts';
import { Panel } from '../panels/panel.ts';

type Props = { api: Api; account: Account };

/** The month of an account, and its limits in use now, as its own overview shows them. */
export function AccountPanels({ api, account: { account, plan, topUp } }: Props) {
  const path = `/admin/accounts/${encodeURIComponent(account)}`;
  const quota = useLoaded((signal) => api.call<Quota>(`${path}/quota`, { signal }), [path, plan, topUp]);
  const limits = useLoaded((signal) => api.call<LimitsInUse>(`${path}/limits`, { signal }), [path, plan]);
  for (const part of [quota, limits]) usePolled(part);
  return h(
    'div',
    { class: 'panels' },
    h(
      Panel,
      { title: 'This month' },
      h(LoadedView<Quota>, {
        loaded: quota,
        what: 'its quota',
        children: (value) => h(MonthCard, { quota: value }),
      }),
    ),
    h(
      Panel,
      { title: 'Limits in use now' },
      h(LoadedView<LimitsInUse>, {
        loaded: limits,
        what: 'its limits',
        children: (value) => h(LimitMeters, { limits: value }),
      }),
    ),
  );
}
