import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { Account } from '../../routes/accounts.ts';
import { AskDialog } from '../page/actions.ts';
import { namedOptions, Select, TextField } from '../page/fields.ts';

/** Settings that an operator can change; a change applies from the next request of the account. */
export type AccountSettings = Partial<{
  plan: string;
  overageEnabled: boolean;
  suspended: boolean;
  topUp: { id: string; tokens: number };
}>;

/** Fails with `ApiFailure`; after success the view shows the new state. An empty reason is not recorded. */
export type ChangeAccount = (settings: AccountSettings, reason: string) => Promise<void>;

type State = Pick<Account, 'plan' | 'overageEnabled' | 'suspended'>;

/**
 * What was done, in words, and the change that takes it back: tokens that were added cannot be taken back. `after`: what follows, unless it
 * applies from the next request.
 */
export type DoneChange = { words: string; after?: string; undo?: AccountSettings };

/** Whether the account has what was set: a later change by another operator must not be undone. */
export function isInForce({ plan, overageEnabled, suspended }: AccountSettings, now: State): boolean {
  const pairs = [
    [plan, now.plan],
    [overageEnabled, now.overageEnabled],
    [suspended, now.suspended],
  ];
  return pairs.every(([set, shown]) => set === undefined || set === shown);
}

export function doneChange(settings: AccountSettings, before: State): DoneChange {
  const { plan, overageEnabled, suspended, topUp } = settings;
  if (plan !== undefined)
    return { words: `The plan is ${plan} now.`, ...(before.plan !== '' && { undo: { plan: before.plan } }) };
  if (overageEnabled !== undefined)
    return { words: `Overage is ${overageEnabled ? 'on' : 'off'} now.`, undo: { overageEnabled: !overageEnabled } };
  if (suspended !== undefined)
    return { words: `The account is ${suspended ? 'suspended' : 'active'} now.`, undo: { suspended: !suspended } };
  return { words: topUp === undefined ? '' : `${topUp.tokens.toLocaleString('en')} tokens were added to this month.` };
}

/** `plan` is empty for an account that is not stored yet. */
type DialogProps = {
  account: Pick<Account, 'account' | 'plan' | 'overageEnabled' | 'suspended'>;
  change: ChangeAccount;
  close: () => void;
};

export function PlanDialog({ account, plans, change, close }: DialogProps & { plans: readonly string[] }) {
  const [plan, setPlan] = useState(account.plan);
  return h(
    AskDialog,
    {
      title: 'Change the plan',
      action: 'Change the plan',
      account: account.account,
      isReady: plan !== account.plan,
      run: (reason) => change({ plan }, reason),
      close,
    },
    h(Select<string>, {
      label: 'Plan of the account',
      // The current plan may no longer be in the plan file.
      options: namedOptions([account.plan, ...plans]),
      value: plan,
      change: setPlan,
    }),
    h('p', { class: 'quiet' }, 'Applies from the next request of the account.'),
  );
}

/** Each id is applied once, so a retry after a lost response does not add the tokens twice. */
export function TopUpDialog({ account, change, close }: DialogProps) {
  const [tokens, setTokens] = useState('');
  const [id, setId] = useState(() => `console-${crypto.randomUUID()}`);
  return h(
    AskDialog,
    {
      title: 'Top up this month',
      action: 'Top up',
      account: account.account,
      run: (reason) => change({ topUp: { id, tokens: Number(tokens) } }, reason),
      close,
    },
    h(TextField, {
      label: 'Tokens to add',
      hint: 'They cannot be taken back.',
      value: tokens,
      change: setTokens,
      input: { type: 'number', min: 1, step: 1, required: true },
    }),
    h(TextField, {
      label: 'ID (applied once)',
      value: id,
      change: setId,
      input: { required: true, maxLength: 128, pattern: '[!-~]+', title: 'visible ASCII characters' },
    }),
  );
}

export function OverageDialog({ account, change, close }: DialogProps) {
  const { overageEnabled } = account;
  const action = overageEnabled ? 'Turn overage off' : 'Turn overage on';
  return h(
    AskDialog,
    {
      title: `${action}?`,
      action,
      account: account.account,
      run: (reason) => change({ overageEnabled: !overageEnabled }, reason),
      close,
    },
    h(
      'p',
      null,
      overageEnabled
        ? 'Requests beyond the allowance get 402 quota_exceeded.'
        : 'Requests beyond the allowance are admitted and counted as overage.',
    ),
  );
}

export function SuspendDialog({ account: { account, suspended }, change, close }: DialogProps) {
  return h(
    AskDialog,
    {
      title: suspended ? 'Resume this account?' : 'Suspend this account?',
      action: suspended ? 'Resume' : 'Suspend',
      isDangerous: !suspended,
      account,
      run: (reason) => change({ suspended: !suspended }, reason),
      close,
    },
    h(
      'p',
      null,
      suspended
        ? 'Its requests are admitted again, and its batches continue.'
        : 'From the next request on, all its requests get 403 FORBIDDEN, and its batches pause.',
    ),
  );
}

function begins(account: string): string {
  return account.startsWith('device:')
    ? 'The device gets its key again with its next call. To keep it out, suspend it first.'
    : 'If its user signs in again, it begins again on the default plan. To keep the user out, suspend the account first.';
}

type RemoveProps = Pick<DialogProps, 'account' | 'close'> & { remove: (reason: string) => Promise<void> };

export function RemoveDialog({ account: { account, suspended }, remove, close }: RemoveProps) {
  return h(
    AskDialog,
    { title: 'Remove this account?', action: 'Remove the account', isDangerous: true, account, run: remove, close },
    h(
      'p',
      null,
      'Its keys stop working at once. Its files, batches, webhooks, settings and name are removed. This cannot be undone. ',
      'Usage records and the audit trail keep its ID.',
    ),
    h('p', null, suspended ? 'It stays suspended.' : begins(account)),
  );
}
