import type { Collection, OpenDocuments } from '../documents.ts';
import type { FileStore } from '../file-store.ts';
import type { UsageStore } from '../usage/usage-store.ts';
import { accountsOf, createAccountStore } from './account-store.ts';
import { auditCollections, createAuditStore } from './audit-store.ts';
import { batchStoreCollections, createBatchStore } from './batch-store.ts';
import { createTopUpCodeStore, topUpCodeCollections } from './top-up-codes.ts';
import { createWebhookStore, webhookCollections } from './webhooks.ts';

/**
 * The permanent data of the service: accounts and devices with their keys, and their usage. It is kept in MongoDB or SQLite, and both pass
 * the same contract suite (contract.md#r1-two-stores, decisions.md#two-stores-behind-one-interface). Only usage and the bytes of files are
 * written for each database: all else is in documents (`shared/store/documents.ts`).
 *
 * Every method fails with `ApiError` `SERVICE_UNAVAILABLE`, within seconds, if the store is unreachable or stays busy, and once it is
 * closed: an outage is never reported as "not found". A change that failed this way may still have been made.
 */
export interface Store extends AsyncDisposable, ReturnType<typeof createDocumentStores> {
  /** The bytes of files. */
  readonly files: FileStore;

  readonly usage: UsageStore;

  /** Returns product, version and topology, for the log and the test report: `sqlite 3.50.4`, `mongodb 8.0.4 (replica set rs0)`. */
  describe(): Promise<string>;

  /** Makes one round trip, to measure whether the store answers. */
  ping(): Promise<void>;

  /** Returns `<collection>.<index>` of each index that the store needs to be fast and does not have, in no fixed order. */
  listMissingIndexes(): Promise<string[]>;
}

/** All collections of documents. */
export const collections: readonly Collection[] = [
  accountsOf,
  ...auditCollections,
  ...batchStoreCollections,
  ...topUpCodeCollections,
  ...webhookCollections,
];

/** The parts of a store that are in documents. */
export function createDocumentStores(open: OpenDocuments) {
  return {
    accounts: createAccountStore(open),
    /** The audit trail of changes of account settings. */
    audit: createAuditStore(open),
    /** Files and batches, without the bytes of files. */
    batches: createBatchStore(open),
    /** Codes that accounts redeem for tokens. */
    topUpCodes: createTopUpCodeStore(open),
    /** Webhook endpoints and the deliveries of events to them. */
    webhooks: createWebhookStore(open),
  };
}
