import type { Collection, Db } from 'mongodb';
import { z } from 'zod';
import { type Account, accountSchema } from '../accounts/account.ts';
import { recordsAdded, type Trail, unrecorded } from '../accounts/audit-records.ts';
import { type AuditRecord, auditRecordSchema } from '../accounts/audit-store.ts';

/** A last use that was noted since the account was read must not be undone by what is written now. */
const writtenSchema = accountSchema.omit({ id: true, lastUse: true });

/** `recorded` and `outbox` are the audit trail's. The version of the service before them leaves both as they are. */
const auditFields = z.object({ recorded: z.int().default(0), outbox: z.array(auditRecordSchema).default([]) });

const trailSchema = accountSchema.pick({ id: true, version: true, changes: true });

export type AccountDocument = { _id: string } & z.infer<typeof writtenSchema> &
  Partial<Pick<Account, 'lastUse'> & z.infer<typeof auditFields>>;

/** An account, and the version up to which its changes are in its outbox or have records. */
export type KeptAccount = Trail & { account: Account };

/** The records that an account's document waits to have copied: all up to `version`. */
export type WaitingAudit = { account: string; version: number; records: AuditRecord[] };

export function accountsOf(database: Db): Collection<AccountDocument> {
  // The driver would write a field that is undefined as null, which is no account any more.
  return database.collection('accounts', { ignoreUndefined: true });
}

/** Sparse: accounts without a key do not count as having the same one, and few have anything in their outbox. */
export async function createAccountIndexes(database: Db): Promise<void> {
  await accountsOf(database).createIndex({ 'key.hash': 1 }, { unique: true, sparse: true });
  await accountsOf(database).createIndex({ 'outbox.id': 1 }, { sparse: true });
}

export function withId({ _id: id, ...fields }: { _id: unknown }): unknown {
  return { ...fields, id };
}

export function readKept(found: { _id: unknown }): KeptAccount {
  return { account: accountSchema.parse(withId(found)), recorded: auditFields.parse(found).recorded };
}

/** Needs of the document its id, `version`, `changes`, `recorded` and `outbox`. */
export function readWaiting(found: { _id: unknown }): WaitingAudit {
  const account = trailSchema.parse(withId(found));
  const { recorded, outbox } = auditFields.parse(found);
  const byId = new Map([...unrecorded({ account, recorded }), ...outbox].map((record) => [record.id, record]));
  return { account: account.id, version: account.version, records: [...byId.values()] };
}

export function toNewDocument(next: Account): AccountDocument {
  const outbox = recordsAdded(undefined, next);
  return { _id: next.id, ...toFields(next), ...(outbox.length > 0 && { outbox }) };
}

/** An empty `$unset` is an error to servers before 5.0, and a field left out of `$set` would stay. */
export function toUpdate(next: Account, before: KeptAccount): object {
  const fields = toFields(next);
  const absent = (['key', 'guest'] as const).filter((name) => fields[name] === undefined);
  const added = recordsAdded(before, next);
  return {
    $set: fields,
    ...(absent.length > 0 && { $unset: Object.fromEntries(absent.map((name) => [name, ''])) }),
    ...(added.length > 0 && { $push: { outbox: { $each: added } } }),
  };
}

function toFields(next: Account) {
  return { ...writtenSchema.parse(next), recorded: next.version };
}
