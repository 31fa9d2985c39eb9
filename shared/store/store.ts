import type { Account, GuestSecrets, MonthTopUp } from './accounts/account.ts';
import type { AuditStore } from './accounts/audit-store.ts';
import type { Decide } from './accounts/decide.ts';
import type { BatchStore } from './batches/batch-store.ts';
import type { FileStore } from './files/file-store.ts';
import type { UsageStore } from './usage/usage-store.ts';

/**
 * What the service keeps for good: accounts and devices with their keys, and what they used. Two homes stand behind this one interface,
 * MongoDB and SQLite, and both pass the same contract suite.
 *
 * Every method fails with `ApiError` `SERVICE_UNAVAILABLE`, within seconds, when the store cannot be reached or stays
 * busy, and once it is closed: an outage is never reported as "not found". A change that failed so may have been made
 * all the same. Each change of an account is one atomic update of one document.
 */
export interface Store extends UsageStore, AsyncDisposable {
  /** Who changed which account's settings, and when. */
  readonly audit: AuditStore;

  /** Files and batches, what is known of them. */
  readonly batches: BatchStore;

  /** The bytes of files. */
  readonly files: FileStore;

  /** Product, version and topology, for the log and the test report: `sqlite 3.50.4`, `mongodb 8.0.4 (replica set rs0)`. */
  describe(): Promise<string>;

  /** One round trip, to measure whether the store answers. */
  ping(): Promise<void>;

  /** The account or device, or undefined when it has never been used. */
  findAccount(id: string): Promise<Account | undefined>;

  /**
   * Accounts and devices whose id begins with `prefix` and comes after `after`, in order of their ids: by code points, which is
   * by their bytes in UTF-8. Each text has to be well-formed.
   */
  listAccounts(page: AccountPage): Promise<ListedAccount[]>;

  /**
   * Whose active key has one of these hashes; undefined when nobody's has. Reads what every change that was answered has
   * written (in a replica set, from the primary).
   */
  findKeyOwner(hashes: readonly string[]): Promise<KeyOwner | undefined>;

  /**
   * Changes one account as `decide` says, atomically: what it decided is written only if the account is still what it was
   * decided on, else it is asked again, until one of its answers stands. An account of its own id comes into being where
   * there was none. A change of settings leaves its audit record in the same step. Fails with `INTERNAL_ERROR` when the new
   * key's hash is that of another account's active key.
   */
  changeAccount<Result>(id: string, decide: Decide<Result>): Promise<Result>;

  /** Removes an account that is still as it was read: of the same version, and last used then. False for any other. */
  removeAccount(account: Pick<Account, 'id' | 'version' | 'lastUse'>): Promise<boolean>;

  /**
   * Notes when keys were last used. Moves no version, and never backwards; a key that is not its account's active one any
   * more is left out.
   */
  recordKeyUse(uses: readonly KeyUse[]): Promise<void>;
}

export type AccountPage = { prefix?: string | undefined; after?: string | undefined; limit: number };

/** An account without its keys and its history, which can be large. */
export type ListedAccount = Pick<Account, 'id' | 'plan' | 'overageEnabled' | 'suspended' | 'createdAt' | 'lastUse'>;

/** `plan` is the account's now, not the one the key was minted under. */
export type KeyOwner = {
  account: string;
  keyId: string;
  plan: string;
  suspended: boolean;
  version: number;
  overageEnabled: boolean;
  topUp?: MonthTopUp;
  guest?: GuestSecrets;
};

export type KeyUse = { account: string; keyId: string; at: Date };
