import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { RemovedAccount } from '../../routes/account-removal.ts';
import type { Account, ChangedAccount } from '../../routes/accounts.ts';
import type { AuditRecord } from '../../routes/audit.ts';
import type { PlanLimits } from '../../routes/plans.ts';
import type { Api } from '../api/api.ts';
import { ApiFailure } from '../api/api-failure.ts';
import { useLoaded, useNewest, usePolled } from '../api/use-loaded.ts';
import { useDoing } from '../page/actions.ts';
import type { AccountAction, UsageFilter } from '../page/console-route.ts';
import { formatCount, formatTime } from '../page/format.ts';
import { StateBadge } from '../page/icons.ts';
import { DisplayName } from '../page/identifiers.ts';
import { Failure, LoadedView } from '../page/loaded-view.ts';
import { type Figure, Figures } from '../page/table.ts';
import { UsageReportView } from '../usage/report-view.ts';
import { AccountActivity } from './account-activity.ts';
import {
  type AccountSettings,
  type ChangeAccount,
  type DoneChange,
  doneChange,
  isInForce,
  OverageDialog,
  PlanDialog,
  RemoveDialog,
  SuspendDialog,
  TopUpDialog,
} from './account-changes.ts';
import { AuditTrail } from './audit-page.ts';

type ShownAccount = { account: Account | undefined; plans: string[] };

/** One account or device: its state, its changes, and its history. */
export function AccountPage({ api, name, action }: { api: Api; name: string; action?: AccountAction | undefined }) {
  const path = `/admin/accounts/${encodeURIComponent(name)}`;
  const [done, setDone] = useState<DoneChange & { set: AccountSettings }>();
  const [usageFilter, setUsageFilter] = useState<UsageFilter>({});
  const loaded = useLoaded<ShownAccount>(
    async (signal) => {
      const [account, { data }] = await Promise.all([
        api.call<Account>(path, { signal }).catch((error: unknown) => unlessUnknown(error, name)),
        api.call<{ data: PlanLimits[] }>('/admin/plans', { signal }),
      ]);
      return { account, plans: data.map(({ plan }) => plan) };
    },
    [path],
  );
  const records = useNewest<AuditRecord>(api, '/admin/audit', { filter: { account: name } });
  usePolled(loaded, { active: done?.undo !== undefined });
  const before = loaded.value?.account ?? { ...unknown, account: name };

  function reload(): void {
    loaded.reload();
    records.reload();
  }

  async function send(settings: AccountSettings, reason: string): Promise<void> {
    await api.call<ChangedAccount>(path, { method: 'PATCH', body: { ...settings, ...(reason && { reason }) } });
    reload();
  }

  async function change(settings: AccountSettings, reason: string): Promise<void> {
    setDone(undefined);
    const changed = doneChange(settings, before);
    await send(settings, reason);
    setDone({ ...changed, set: settings });
  }

  async function remove(reason: string): Promise<void> {
    const query = reason === '' ? '' : `?${new URLSearchParams({ reason })}`;
    const { deleted } = await api.call<RemovedAccount>(`${path}${query}`, { method: 'DELETE' });
    reload();
    const isLeft = {
      words: 'The account is being removed.',
      after: 'Its batches end first, which takes up to a minute.',
    };
    setDone({ ...(deleted ? { words: 'The account was removed.', after: '' } : isLeft), set: {} });
  }

  async function undo(settings: AccountSettings): Promise<void> {
    await send(settings, 'undone');
    setDone({ words: 'The change was undone.', set: settings });
  }

  return [
    h('p', { class: 'crumb' }, h('a', { href: '#accounts' }, 'Accounts')),
    h('h1', { tabIndex: -1 }, name, h(DisplayName, { name: loaded.value?.account?.name })),
    h(LoadedView<ShownAccount>, {
      loaded,
      what: 'the account',
      children: ({ account, plans }) => [
        account === undefined ? h(Unknown, null) : h(AccountStatus, { account }),
        h(AccountActions, { account: before, plans, change, remove: account && remove, action }),
        h(DoneNotice, { done: done && isInForce(done.set, before) ? done : undefined, undo }),
        h(AccountActivity, { api, name, account, reload }),
        h(UsageReportView, {
          ...{ api, path: `${path}/usage`, keyNames: namesOf(account), requestsOf: { account: name } },
          ...{ filter: usageFilter, choose: setUsageFilter },
        }),
        (account ?? records.value?.data[0]) && [h('h2', null, 'Audit trail'), h(AuditTrail, { records })],
      ],
    }),
  ];
}

/** An account without a key or a change is not stored yet, but can be changed. */
function unlessUnknown(error: unknown, name: string): undefined {
  const isUnknown = error instanceof ApiFailure && error.status === 404 && name.startsWith('user:');
  if (!isUnknown) throw error;
}

function namesOf(account: Account | undefined): ReadonlyMap<string, string> {
  return new Map(account?.keys.map(({ id, name }) => [id, name]));
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
  const state = suspended
    ? ({ state: 'suspended', tone: 'bad' } as const)
    : ({ state: 'active', tone: 'good' } as const);
  const figures: Figure[] = [
    ['Plan', plan],
    ['State', h(StateBadge, state)],
    ['Overage', overageEnabled ? 'on' : 'off'],
    ['Top-ups this month', `${formatCount(topUp)} tokens`],
    ['Created', formatTime(createdAt)],
  ];
  return h(Figures, { figures });
}

type ActionsProps = {
  account: Pick<Account, 'account' | 'plan' | 'overageEnabled' | 'suspended'>;
  plans: readonly string[];
  change: ChangeAccount;
  /** Undefined for an account that there is not. */
  remove: ((reason: string) => Promise<void>) | undefined;
  /** What is asked at first. */
  action: AccountAction | undefined;
};

type ActionName = AccountAction | 'overage' | 'removal';

/** Buttons for the changes of an account. Each asks for confirmation. */
function AccountActions({ account, plans, change, remove, action }: ActionsProps) {
  const [asking, setAsking] = useState<ActionName | undefined>(action);
  const common = { account, change, close: () => setAsking(undefined) };
  const button = (what: ActionName, label: string, look = '') =>
    h('button', { type: 'button', class: look, onClick: () => setAsking(what) }, label);
  return [
    h(
      'div',
      { class: 'actions' },
      button('plan', 'Change the plan'),
      button('top-up', 'Top up'),
      button('overage', account.overageEnabled ? 'Turn overage off' : 'Turn overage on'),
      button('suspension', account.suspended ? 'Resume' : 'Suspend', account.suspended ? '' : 'danger'),
      remove && button('removal', 'Remove', 'danger'),
    ),
    asking === 'plan' && h(PlanDialog, { ...common, plans }),
    asking === 'top-up' && h(TopUpDialog, common),
    asking === 'overage' && h(OverageDialog, common),
    asking === 'suspension' && h(SuspendDialog, common),
    asking === 'removal' && remove && h(RemoveDialog, { account, remove, close: common.close }),
  ];
}

type NoticeProps = { done: DoneChange | undefined; undo: (settings: AccountSettings) => Promise<void> };

/** What was just changed, with a button that takes it back where that is possible. */
function DoneNotice({ done, undo }: NoticeProps) {
  const back = done?.undo;
  const doing = useDoing(async () => {
    if (back !== undefined) await undo(back);
  });
  return [
    h(
      'div',
      { role: 'status', class: done === undefined ? '' : 'done-notice' },
      done !== undefined && [
        h('span', { class: 'good' }, `${done.words} ${done.after ?? 'It applies from the next request.'} `),
        back !== undefined && h('button', { type: 'button', 'aria-disabled': doing.busy, onClick: doing.run }, 'Undo'),
      ],
    ),
    doing.error !== undefined && h(Failure, { error: doing.error }),
  ];
}
