import { accountsOf } from './accounts/account-document.ts';
import { createAccountStore } from './accounts/account-store.ts';
import { auditCollections, createAuditStore } from './accounts/audit-store.ts';
import { batchStoreCollections, createBatchStore } from './batches/batch-store.ts';
import type { Collection, OpenDocuments } from './documents/documents.ts';
import type { Store } from './store.ts';
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
export function createDocumentStores(
  open: OpenDocuments,
): Pick<Store, 'accounts' | 'audit' | 'batches' | 'topUpCodes' | 'webhooks'> {
  return {
    accounts: createAccountStore(open),
    audit: createAuditStore(open),
    batches: createBatchStore(open),
    topUpCodes: createTopUpCodeStore(open),
    webhooks: createWebhookStore(open),
  };
}
