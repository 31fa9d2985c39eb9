import type { AccountStore } from './accounts/account-store.ts';
import type { AuditStore } from './accounts/audit-store.ts';
import type { BatchStore } from './batches/batch-store.ts';
import type { FileStore } from './files/file-store.ts';
import type { TopUpCodeStore } from './top-up-codes/top-up-code-store.ts';
import type { UsageStore } from './usage/usage-store.ts';
import type { WebhookStore } from './webhooks/webhook-store.ts';

/**
 * The permanent data of the service: accounts and devices with their keys, and their usage. It is kept in MongoDB or SQLite, and both pass
 * the same contract suite (contract.md#r1-two-stores, decisions.md#two-stores-behind-one-interface). Only usage and the bytes of files are
 * written for each database: all else is in documents (`documents.ts`).
 *
 * Every method fails with `ApiError` `SERVICE_UNAVAILABLE`, within seconds, if the store is unreachable or stays busy, and once it is
 * closed: an outage is never reported as "not found". A change that failed this way may still have been made.
 */
export interface Store extends AsyncDisposable {
  readonly accounts: AccountStore;

  /** The audit trail of changes of account settings. */
  readonly audit: AuditStore;

  /** Files and batches, without the bytes of files. */
  readonly batches: BatchStore;

  /** The bytes of files. */
  readonly files: FileStore;

  /** Codes that accounts redeem for tokens. */
  readonly topUpCodes: TopUpCodeStore;

  readonly usage: UsageStore;

  /** Webhook endpoints and the deliveries of events to them. */
  readonly webhooks: WebhookStore;

  /** Returns product, version and topology, for the log and the test report: `sqlite 3.50.4`, `mongodb 8.0.4 (replica set rs0)`. */
  describe(): Promise<string>;

  /** Makes one round trip, to measure whether the store answers. */
  ping(): Promise<void>;

  /** Returns `<collection>.<index>` of each index that the store needs to be fast and does not have, in no fixed order. */
  listMissingIndexes(): Promise<string[]>;
}
