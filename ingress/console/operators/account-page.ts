import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Account, ChangedAccount, PlanLimits } from '../../openapi/answers.ts';
import type { Api } from '../api/api.ts';
import { BatchProgress } from '../batches/batch-progress.ts';
import { KeyTable } from '../keys/key-table.ts';
import { LoadedView } from '../page/failure.ts';
import { formatCount, formatTime } from '../page/format.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { MonthOfUsage } from '../usage/month-of-usage.ts';
import { AuditTrail } from './audit-trail.ts';
import type { AccountSettings } from './change-account.ts';
import { PlanForm } from './plan-form.ts';
import { OverageButton, SuspendButton } from './switches.ts';
import { TopUpForm } from './top-up-form.ts';

type Shown = { account: Account; plans: PlanLimits[] };

/** One account or device: its standing, what can be changed, and what was. */
export function AccountPage({ api, name }: { api: Api; name: string }) {
  const path = `/admin/accounts/${encodeURIComponent(name)}`;
  const [said, setSaid] = useState('');
  const loaded = useLoaded<Shown>(
    async (signal) => {
      const [account, plans] = await Promise.all([
        api.call<Account>(path, { signal }),
        api.call<{ data: PlanLimits[] }>('/admin/plans', { signal }),
      ]);
      return { account, plans: plans.data };
    },
    [path],
  );

  async function change(settings: AccountSettings): Promise<void> {
    await api.call<ChangedAccount>(path, { method: 'PATCH', body: settings });
    setSaid('Changed. It counts on the next request of this account.');
    loaded.reload();
  }

  return [
    h('h1', { tabIndex: -1 }, h('span', { class: 'account' }, name)),
    h('p', null, h('a', { href: '#operators' }, 'All accounts')),
    h('p', { role: 'status', class: 'good' }, said),
    h(LoadedView<Shown>, {
      loaded,
      what: 'the account',
      children: ({ account, plans }) => [
        h(Standing, { account }),
        h('h2', null, 'Change it'),
        h(
          'div',
          { class: 'forms' },
          h(PlanForm, { account, plans: plans.map(({ plan }) => plan), change }),
          h(TopUpForm, { change }),
          h(OverageButton, { account, change }),
          h(SuspendButton, { account, change }),
        ),
        h(MonthOfUsage, { load: (month, signal) => api.call(`${path}/usage?month=${month}`, { signal }) }),
        h('h2', null, 'Batches'),
        h(LastBatches, { batches: account.batches }),
        h('h2', null, 'Keys'),
        account.keys.length === 0
          ? h('p', { class: 'empty' }, 'It has never had a key.')
          : h(KeyTable, { keys: account.keys }),
        h('h2', null, 'Audit trail'),
        h(AuditTrail, { changes: account.changes }),
      ],
    }),
  ];
}

function Standing({ account: { plan, suspended, overageEnabled, topUp, createdAt } }: { account: Account }) {
  return h(
    'dl',
    { class: 'figures' },
    [
      ['Plan', plan],
      ['State', suspended ? 'suspended' : 'active'],
      ['Overage', overageEnabled ? 'on' : 'off'],
      ['Topped up this month', `${formatCount(topUp)} tokens`],
      ['Since', formatTime(createdAt)],
    ].map(([term, value]) => h('div', { key: term }, h('dt', null, term), h('dd', null, value))),
  );
}

function LastBatches({ batches }: { batches: Account['batches'] }) {
  if (batches.length === 0) return h('p', { class: 'empty' }, 'It has handed in no batch.');
  return h(
    'ul',
    { class: 'cards' },
    batches.map((batch) =>
      h(
        'li',
        { class: 'card', key: batch.id },
        h(
          'h3',
          null,
          h('code', null, batch.id),
          ' ',
          h('span', { class: `state ${batch.status}` }, batch.status.replace('_', ' ')),
        ),
        h(BatchProgress, { batch }),
        h('p', { class: 'quiet' }, `Handed in ${formatTime(batch.created_at)}`),
      ),
    ),
  );
}
