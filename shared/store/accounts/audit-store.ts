import { z } from 'zod';
import { storedDate } from '../../stored-date.ts';
import { auditedChangeSchema } from './account.ts';

export const auditRecordSchema = z.object({
  id: z.string(),
  at: storedDate,
  actor: z.string(),
  address: z.string().nullable(),
  account: z.string(),
  change: auditedChangeSchema,
  reason: z.string().nullable(),
});

/**
 * One change of an account's settings, or one action of an operator on its keys, batches or requests. `actor` (an account) made it from the
 * client address `address`. `address` is null if it was not kept, and `reason` is null if none was given. Ids sort by time.
 */
export type AuditRecord = z.infer<typeof auditRecordSchema>;

export const auditId = /^audit_[0-9A-HJKMNP-TV-Z]{26}$/;

/** A page of records of one account, of one actor, or of both, after the record `after`. */
export type AuditPage = {
  account?: string | undefined;
  actor?: string | undefined;
  after?: string | undefined;
  limit: number;
};

/**
 * The audit trail: a record of every change of settings and of every action of an operator. Records are never removed or replaced. The
 * update that makes a change stores its record in the same step, in some stores in an outbox in the account's document. A record leaves the
 * outbox once it is copied under its own id. So no kill, at any instant, loses or duplicates a record (contract.md#r10-audit-outbox,
 * decisions.md#audit-records-by-an-outbox-in-the-account).
 */
export interface AuditStore {
  /** Lists records, newest first, including those in outboxes. */
  listAudit(page: AuditPage): Promise<AuditRecord[]>;

  /** Copies the waiting records of one account. Idempotent. */
  copyAudit(account: string): Promise<void>;

  /**
   * Copies the waiting records of the next `limit` accounts after this one that have any, in order of their ids. `copied` counts records.
   * `last` is the last of these accounts, undefined after the last account of all. Accounts in `unreadable` have an outbox that
   * cannot be read; they remain unchanged. Idempotent.
   */
  copyAuditAfter(account: string, limit: number): Promise<CopiedAudit>;
}

export type CopiedAudit = { copied: number; last: string | undefined; unreadable: readonly string[] };
