import { createHash } from 'node:crypto';
import { encodeTime } from 'ulid';
import { z } from 'zod';
import { storedDate } from '../../json/stored-values.ts';
import { type Account, auditedChangeSchema, type Change } from './account.ts';

/** What a record is about. */
export const auditKinds = ['account', 'key', 'code', 'plan_file', 'backend', 'batch', 'request'] as const;
export type AuditKind = (typeof auditKinds)[number];

const codeSchema = z.object({ id: z.string(), tokens: z.int(), note: z.string().nullable() });

const namesSchema = z.object({
  added: z.array(z.string()),
  removed: z.array(z.string()),
  changed: z.array(z.string()),
  more: z.int(),
});

const planFileChangeSchema = z.object({
  from: z.string().nullable(),
  to: z.string(),
  models: namesSchema.optional(),
  backends: namesSchema.optional(),
  plans: namesSchema.optional(),
  others: z.array(z.string()),
});

/**
 * A plan file that is in force, and the generation before it, null if none is known. Each section has the names of its entries that differ;
 * `more` are those beyond the first ones. `others` are the names of further sections that differ.
 */
export type PlanFileChange = z.infer<typeof planFileChangeSchema>;

export const auditRecordSchema = z.object({
  id: z.string(),
  at: storedDate,
  kind: z.enum(auditKinds),
  actor: z.string().nullable(),
  address: z.string().nullable(),
  account: z.string().nullable(),
  change: auditedChangeSchema.extend({
    codesCreated: codeSchema.extend({ count: z.int() }).optional(),
    codeRevoked: codeSchema.optional(),
    planFile: planFileChangeSchema.optional(),
  }),
  reason: z.string().nullable(),
});

/**
 * One change that was made by `actor` (an account; null: the service) from the client address `address`. `account`: whose, null if it is
 * not of an account. `address` is null if it was not kept, and `reason` is null if none was given. Ids sort by time.
 */
export type AuditRecord = z.infer<typeof auditRecordSchema>;

export const auditId = /^audit_[0-9A-HJKMNP-TV-Z]{26}$/;

/** The records that have all of these, at `start` or later and before `end`, and of one of several kinds. */
export type AuditFilter = {
  account?: string | undefined;
  actor?: string | undefined;
  kind?: AuditKind | readonly AuditKind[] | undefined;
  start?: Date | undefined;
  end?: Date | undefined;
};

/** A page of records, after the record `after`. */
export type AuditPage = AuditFilter & { after?: string | undefined; limit: number };

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
  const { account, actor, kind, after, limit } = page;
  const { from, before } = idRangeOf(page);
  const isWanted = (record: AuditRecord) =>
    (account === undefined || record.account === account) &&
    (actor === undefined || record.actor === actor) &&
    (kind === undefined || [kind].flat().includes(record.kind)) &&
    (from === undefined || record.id >= from) &&
    (before === undefined || record.id < before) &&
    (after === undefined || record.id < after);
  const byId = new Map([...waiting, ...kept].map((record) => [record.id, record]));
  return [...byId.values()].filter(isWanted).sort(newestFirst).slice(0, limit);
}

/** The ids of the records of a time: at `from` or after it, and before `before`. */
export function idRangeOf({ start, end }: Pick<AuditPage, 'start' | 'end'>) {
  return { from: start && firstIdAt(start), before: end && firstIdAt(end) };
}

/**
 * The id of a record that no account's document has. What it is of has the same id no matter which process creates the record, so that a
 * record is never stored twice.
 */
export function auditIdFor(name: string, at: Date): string {
  const hash = createHash('sha256').update(name).digest();
  return `${firstIdAt(at)}${encodeTime(hash.readUIntBE(0, 5), 8)}${encodeTime(hash.readUIntBE(5, 5), 8)}`;
}

/** A client can name a time before 1970. */
function firstIdAt(at: Date): string {
  return `audit_${encodeTime(Math.max(0, at.getTime()), 10)}`;
}

function recordOf(owner: Account, index: number): AuditRecord | undefined {
  const { id: account, version, changes } = owner;
  const entry = changes[index];
  if (entry === undefined) return undefined;
  const { at, by: actor, origin } = entry;
  const change = auditedChangeSchema.parse(entry);
  if (Object.keys(change).length === 0) return undefined;
  const kind = kindOf(change);
  // Devices are many, and make their keys themselves.
  if (kind === 'key' && owner.guest !== undefined && actor === account) return undefined;
  const id = auditIdOf({ account, version: version - index, at });
  return { id, at, kind, actor, address: origin?.address ?? null, account, change, reason: origin?.reason ?? null };
}

const kindsOfChanges = {
  codeRedeemed: 'code',
  keyMinted: 'key',
  keyRotated: 'key',
  keyRevoked: 'key',
  keyChanged: 'key',
  batchCancelled: 'batch',
  requestEnded: 'request',
  backendPaused: 'backend',
  backendResumed: 'backend',
} as const satisfies Partial<Record<keyof Change, AuditKind>>;

function kindOf(change: z.infer<typeof auditedChangeSchema>): AuditKind {
  const found = Object.entries(kindsOfChanges).find(([name]) => Object.hasOwn(change, name));
  return found?.[1] ?? 'account';
}

/**
 * Returns `audit_` and 26 characters that sort as a ULID does: the time (10), the account's version (6), and a hash of its name (10). It
 * is the same in every process, as above.
 */
function auditIdOf({ account, version, at }: { account: string; version: number; at: Date }): string {
  const hash = createHash('sha256').update(account).digest().readUIntBE(0, 6);
  return `${firstIdAt(at)}${encodeTime(version, 6)}${encodeTime(hash, 10)}`;
}

function newestFirst(one: AuditRecord, other: AuditRecord): number {
  return one.id < other.id ? 1 : -1;
}
