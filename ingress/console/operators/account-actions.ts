import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Account } from '../../routes/accounts.ts';
import type { ChangeAccount } from './account-changes.ts';
import { OverageDialog, PlanDialog, RemoveDialog, SuspendDialog, TopUpDialog } from './change-dialogs.ts';

type Props = {
  account: Pick<Account, 'account' | 'plan' | 'overageEnabled' | 'suspended'>;
  plans: readonly string[];
  change: ChangeAccount;
  /** Undefined for an account that there is not. */
  remove: ((reason: string) => Promise<void>) | undefined;
};

type ActionName = 'plan' | 'top-up' | 'overage' | 'suspension' | 'removal';

/** Buttons for the changes of an account. Each asks for confirmation. */
export function AccountActions({ account, plans, change, remove }: Props) {
  const [asking, setAsking] = useState<ActionName>();
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
