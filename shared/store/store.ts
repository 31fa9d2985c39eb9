import type { KeyScope } from '../key-scope.ts';
import type { Account, GuestSecrets, MonthTopUp } from './accounts/account.ts';
import type { AuditStore } from './accounts/audit-store.ts';
import type { Decide } from './accounts/decide.ts';
import type { NameStore } from './accounts/name-store.ts';
import type { BatchStore } from './batches/batch-store.ts';
import type { FileStore } from './files/file-store.ts';
import type { TopUpCodeStore } from './top-up-codes/top-up-code-store.ts';
import type { UsageStore } from './usage/usage-store.ts';
import type { WebhookStore } from './webhooks/webhook-store.ts';

/**
 * The permanent data of the service: accounts and devices with their keys, and their usage. Two stores implement this interface, MongoDB
 * and SQLite, and both pass the same contract suite (contract.md#r1-two-stores, decisions.md#two-stores-behind-one-interface).
 *
 * Every method fails with `ApiError` `SERVICE_UNAVAILABLE`, within seconds, if the store is unreachable or stays busy, and once it is
 * closed: an outage is never reported as "not found". A change that failed this way may still have been made. Each change of an account is
 * one atomic update of one document (decisions.md#no-transactions).
 */
export interface Store extends UsageStore, AsyncDisposable {
  /** The audit trail of changes of account settings. */
  readonly audit: AuditStore;

  /** Display names of accounts. */
  readonly names: NameStore;

  /** Codes that accounts redeem for tokens. */
  readonly topUpCodes: TopUpCodeStore;

  /** Files and batches, without the bytes of files. */
  readonly batches: BatchStore;

  /** The bytes of files. */
  readonly files: FileStore;

  /** Webhook endpoints and the deliveries of events to them. */
  readonly webhooks: WebhookStore;

  /** Returns product, version and topology, for the log and the test report: `sqlite 3.50.4`, `mongodb 8.0.4 (replica set rs0)`. */
  describe(): Promise<string>;

  /** Makes one round trip, to measure whether the store answers. */
  ping(): Promise<void>;

  /** Returns `<collection>.<index>` of each index that the store needs to be fast and does not have, in no fixed order. */
  listMissingIndexes(): Promise<string[]>;

  /** Returns the account or device, or undefined if it has never been used. */
  findAccount(id: string): Promise<Account | undefined>;

  /**
   * Lists accounts and devices whose id begins with `prefix` and comes after `after`, in order of their ids: by code points, which is the
   * order of their bytes in UTF-8. Both texts must be well-formed. An account that is gone (`isGone`) is not listed.
   */
  listAccounts(page: AccountPage): Promise<ListedAccount[]>;

  /** Lists the accounts whose removal has begun and is not done, in order of their ids, after this one. */
  listRemovals(page: { after: string; limit: number }): Promise<string[]>;

  /**
   * Finds the owner of the live key with one of these hashes; returns undefined if there is none. Reads all confirmed changes (in a replica
   * set, from the primary).
   */
  findKeyOwner(hashes: readonly string[]): Promise<KeyOwner | undefined>;

  /**
   * Finds the accounts with a key of this id, or with a key that begins like this (`svc_` and up to six characters), in order of their ids.
   * A key that has ended is not found.
   */
  findAccountsByKey(key: KeySearch): Promise<string[]>;

  /**
   * Changes one account atomically as `decide` returns. `next` is written only if the account has not changed in the meantime; otherwise
   * `decide` is called again, until one of its decisions is applied. If the account does not exist, it is created. A change of settings
   * stores its audit record in the same step. Fails with `INTERNAL_ERROR` if the new key's hash is that of another account's key.
   */
  changeAccount<Result>(id: string, decide: Decide<Result>): Promise<Result>;

  /**
   * Removes an account that has not changed since it was read: with the same version, and keys that were not used since. Returns false for
   * any other.
   */
  removeAccount(account: Pick<Account, 'id' | 'version' | 'keys'>): Promise<boolean>;

  /**
   * Records when keys were last used. Does not change a version, and never moves a time backwards. A key that has ended, or that its
   * account does not have, is ignored.
   */
  recordKeyUse(uses: readonly KeyUse[]): Promise<void>;
}

export type KeySearch = ({ id: string } | { start: string }) & { limit: number };

export type AccountPage = { prefix?: string | undefined; after?: string | undefined; limit: number };

/** An account without its keys and its history, which can be large. `usedAt` is when one of its live keys was last used. */
export type ListedAccount = Pick<Account, 'id' | 'plan' | 'overageEnabled' | 'suspended' | 'createdAt'> & {
  usedAt?: Date;
};

/**
 * `plan` is the account's current plan, not the one the key was minted under. `keyScope` is omitted for the account's default key, which may
 * do everything.
 */
export type KeyOwner = {
  account: string;
  keyId: string;
  keyScope?: KeyScope;
  plan: string;
  suspended: boolean;
  version: number;
  overageEnabled: boolean;
  topUp?: MonthTopUp;
  guest?: GuestSecrets;
};

export type KeyUse = { account: string; keyId: string; at: Date };
