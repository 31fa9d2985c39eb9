import { z } from 'zod';
import { storedDate } from '../../stored-date.ts';
import { settingsChangeSchema } from './account.ts';

export const auditRecordSchema = z.object({
  id: z.string(),
  at: storedDate,
  actor: z.string(),
  address: z.string().nullable(),
  account: z.string(),
  change: settingsChangeSchema,
  reason: z.string().nullable(),
});

/**
 * One change of an account's settings: `actor` (an account) made it from the client address `address`. `address` and `reason`
 * are null where they were not kept or not given. Ids sort by time.
 */
export type AuditRecord = z.infer<typeof auditRecordSchema>;

export const auditId = /^audit_[0-9A-HJKMNP-TV-Z]{26}$/;

/** The records of one account, of one actor, or of both, that come after the record `after`. */
export type AuditPage = {
  account?: string | undefined;
  actor?: string | undefined;
  after?: string | undefined;
  limit: number;
};

/**
 * The audit trail: a record of every change of settings, which nothing removes or replaces. The update that makes a change
 * keeps its record in the same step, if only in an outbox in the account's document. It leaves the outbox once it is copied
 * under its own id. So a kill at any instant loses no record and doubles none.
 */
export interface AuditStore {
  /**
   * Newest first, with those that wait in outboxes. Changes that the version before audit records has made are included for one
   * `account`; for all accounts once they are copied.
   */
  listAudit(page: AuditPage): Promise<AuditRecord[]>;

  /** Copies what waits of one account. Idempotent. */
  copyAudit(account: string): Promise<void>;

  /**
   * Copies what waits of the next `limit` accounts after this one that have something waiting, in order of their ids. `copied`
   * counts records. `last` is the last of these accounts, undefined after the last of all. Accounts in `unreadable` have a
   * document that is not an account's, and keep what they have. Idempotent.
   */
  copyAuditAfter(account: string, limit: number): Promise<CopiedAudit>;
}

export type CopiedAudit = { copied: number; last: string | undefined; unreadable: readonly string[] };
