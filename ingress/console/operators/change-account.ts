import type { Account } from '../../api/response-schemas.ts';

/** Settings that an operator can change; a change applies from the next request of the account. */
export type AccountSettings = Partial<{
  plan: string;
  overageEnabled: boolean;
  suspended: boolean;
  topUp: { id: string; tokens: number };
}>;
/** Fails with `ApiFailure`; after success the view shows the new state. An empty reason is not recorded. */
export type ChangeAccount = (settings: AccountSettings, reason: string) => Promise<void>;

/** Props of the forms; `plan` is empty for an account that is not stored yet. */
export type AccountFormProps = {
  account: Pick<Account, 'account' | 'plan' | 'overageEnabled' | 'suspended'>;
  change: ChangeAccount;
};
