import { createHash } from 'node:crypto';
import { encodeTime } from 'ulid';
import { z } from 'zod';
import { storedDate } from '../../json/stored-values.ts';
import { type Account, auditedChangeSchema, type Change } from './account.ts';

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

/** Returns the record of an account's newest change, or undefined if that is not recorded. */
export function newestRecord(account: Account): AuditRecord | undefined {
  return recordOf(account, 0);
}

/** Returns the records of all changes that the account still has, newest first. */
export function recordsOf(account: Account): AuditRecord[] {
  return account.changes.flatMap((_, index) => recordOf(account, index) ?? []);
}

/** Merges `waiting` and `kept` into the requested page, each record once. If two have the same id, the one in `kept` is used. */
export function pageOf(page: AuditPage, waiting: readonly AuditRecord[], kept: readonly AuditRecord[]): AuditRecord[] {
  const { account, actor, after, limit } = page;
  const isWanted = (record: AuditRecord) =>
    (account === undefined || record.account === account) &&
    (actor === undefined || record.actor === actor) &&
    (after === undefined || record.id < after);
  const byId = new Map([...waiting, ...kept].map((record) => [record.id, record]));
  return [...byId.values()].filter(isWanted).sort(newestFirst).slice(0, limit);
}

function recordOf({ id: account, version, changes }: Account, index: number): AuditRecord | undefined {
  const entry = changes[index];
  if (entry === undefined) return undefined;
  const { at, by: actor, origin } = entry;
  const change = auditedOf(entry, account);
  if (Object.keys(change).length === 0) return undefined;
  const id = auditIdOf({ account, version: version - index, at });
  return { id, at, actor, address: origin?.address ?? null, account, change, reason: origin?.reason ?? null };
}

/** A key that its own account has revoked is not in the audit trail. */
function auditedOf(change: Change, account: string): AuditRecord['change'] {
  const { keyRevoked, ...audited } = auditRecordSchema.shape.change.parse(change);
  return { ...audited, ...(keyRevoked !== undefined && change.by !== account && { keyRevoked }) };
}

/**
 * Returns `audit_` and 26 characters that sort as a ULID does: the time (10), the account's version (6), and a hash of its name (10). A
 * change has the same id no matter which process creates the record, so that a record is never stored twice.
 */
function auditIdOf({ account, version, at }: { account: string; version: number; at: Date }): string {
  const hash = createHash('sha256').update(account).digest().readUIntBE(0, 6);
  return `audit_${encodeTime(at.getTime(), 10)}${encodeTime(version, 6)}${encodeTime(hash, 10)}`;
}

function newestFirst(one: AuditRecord, other: AuditRecord): number {
  return one.id < other.id ? 1 : -1;
}
