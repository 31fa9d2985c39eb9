import { accountsOf, createAccountStore } from './accounts/account-store.ts';
import { auditCollections, createAuditStore } from './accounts/audit-store.ts';
import { batchStoreCollections, createBatchStore } from './batches/batch-store.ts';
import type { Collection, OpenDocuments } from './documents/documents.ts';
import { createTopUpCodeStore, topUpCodeCollections } from './top-up-codes/top-up-code-store.ts';
import { createWebhookStore, webhookCollections } from './webhooks/webhook-store.ts';

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
