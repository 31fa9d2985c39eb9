import type { Account } from '../../api/response-schemas.ts';

/** What an operator may do about an account; each change counts on its next request. */
export type AccountSettings = Partial<{
  plan: string;
  overageEnabled: boolean;
  suspended: boolean;
  topUp: { id: string; tokens: number };
}>;
/** Fails with `ApiFailure`; after success the view shows the new state. An empty reason is none. */
export type ChangeAccount = (settings: AccountSettings, reason: string) => Promise<void>;

/** What the forms go by; `plan` is empty for an account that is not known yet. */
export type AccountFormProps = {
  account: Pick<Account, 'account' | 'plan' | 'overageEnabled' | 'suspended'>;
  change: ChangeAccount;
};
