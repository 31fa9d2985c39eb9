import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Account, AuditRecord, ChangedAccount, PlanLimits } from '../../api/response-schemas.ts';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';
import { BatchProgress } from '../batches/batch-progress.ts';
import { batchState, batchTitle } from '../batches/batch-words.ts';
import { StateBadge } from '../controls/state-badge.ts';
import { formatCount, formatTime } from '../page/format.ts';
import { LoadedView } from '../page/loaded-view.ts';
import { useLoaded } from '../page/use-loaded.ts';
import { type Newest, useNewest } from '../page/use-newest.ts';
import { UsageReportView } from '../usage/usage-report.ts';
import { AccountKeyTable } from './account-key-table.ts';
import { AuditTrail } from './audit-trail.ts';
import type { AccountFormProps, AccountSettings } from './change-account.ts';
import { OverageButton } from './overage-button.ts';
import { PlanForm } from './plan-form.ts';
import { SuspendButton } from './suspend-button.ts';
import { TopUpForm } from './top-up-form.ts';

type Shown = { account: Account | undefined; plans: string[] };

/** One account or device: its state, forms to change it, and its history. */
export function AccountPage({ api, name }: { api: Api; name: string }) {
  const path = `/admin/accounts/${encodeURIComponent(name)}`;
  const [said, setSaid] = useState('');
  const loaded = useLoaded<Shown>(
    async (signal) => {
      const [account, { data }] = await Promise.all([
        api.call<Account>(path, { signal }).catch((error: unknown) => unlessUnknown(error, name)),
        api.call<{ data: PlanLimits[] }>('/admin/plans', { signal }),
      ]);
      return { account, plans: data.map(({ plan }) => plan) };
    },
    [path],
  );

  const records = useNewest<AuditRecord>(api, '/admin/audit', { account: name });

  async function change(settings: AccountSettings, reason: string): Promise<void> {
    setSaid('');
    const why = reason.trim();
    await api.call<ChangedAccount>(path, { method: 'PATCH', body: { ...settings, ...(why && { reason: why }) } });
    setSaid('Changed. Applies from the next request of this account.');
    loaded.reload();
    records.reload();
  }

  return [
    h('h1', { tabIndex: -1 }, name),
    h('p', { class: 'crumb' }, h('a', { href: '#accounts' }, 'Accounts')),
    h('p', { role: 'status', class: 'good' }, said),
    h(LoadedView<Shown>, {
      loaded,
      what: 'the account',
      children: ({ account, plans }) => [
        account === undefined ? h(Unknown, null) : h(AccountStatus, { account }),
        h(Forms, { account: account ?? { ...unknown, account: name }, plans, change }),
        h(UsageReportView, { api, path: `${path}/usage` }),
        account && h(History, { account, records }),
      ],
    }),
  ];
}

/** An account without a key or a change is not stored yet, but can be changed. */
function unlessUnknown(error: unknown, name: string): undefined {
  const isUnknown = error instanceof ApiFailure && error.status === 404 && name.startsWith('user:');
  if (!isUnknown) throw error;
}

const unknown = { plan: '', overageEnabled: false, suspended: false };

function Unknown() {
  return h(
    'p',
    { class: 'notice' },
    'This account has no key and no changes yet, or does not exist. Changes that you make here apply from its first request.',
  );
}

function AccountStatus({ account: { plan, suspended, overageEnabled, topUp, createdAt } }: { account: Account }) {
  return h(
    'dl',
    { class: 'figures' },
    [
      ['Plan', plan],
      ['State', suspended ? 'suspended' : 'active'],
      ['Overage', overageEnabled ? 'on' : 'off'],
      ['Top-ups this month', `${formatCount(topUp)} tokens`],
      ['Created', formatTime(createdAt)],
    ].map(([term, value]) => h('div', { key: term }, h('dt', null, term), h('dd', null, value))),
  );
}

function Forms({ account, plans, change }: AccountFormProps & { plans: readonly string[] }) {
  return [
    h('h2', null, 'Change the account'),
    h(
      'div',
      { class: 'forms' },
      h(PlanForm, { account, plans, change }),
      h(TopUpForm, { change }),
      h(OverageButton, { account, change }),
      h(SuspendButton, { account, change }),
    ),
  ];
}

function History({ account: { batches, keys }, records }: { account: Account; records: Newest<AuditRecord> }) {
  return [
    h('h2', null, 'Batches'),
    batches.length === 0
      ? h('p', { class: 'empty' }, 'It has no batches.')
      : h(
          'ul',
          { class: 'cards' },
          batches.map((batch) =>
            h(
              'li',
              { class: 'card', key: batch.id },
              h('h3', null, batchTitle(batch), ' ', h(StateBadge, batchState(batch))),
              h(BatchProgress, { batch }),
              h('p', { class: 'quiet' }, `Created ${formatTime(batch.created_at)}`),
            ),
          ),
        ),
    h('h2', null, 'Keys'),
    keys.length === 0 ? h('p', { class: 'empty' }, 'It has no keys.') : h(AccountKeyTable, { keys }),
    h('h2', null, 'Audit trail'),
    h(AuditTrail, { records }),
  ];
}
