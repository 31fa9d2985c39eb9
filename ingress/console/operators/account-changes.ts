import type { Account } from '../../routes/accounts.ts';

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
