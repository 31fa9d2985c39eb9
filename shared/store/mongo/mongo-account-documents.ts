import type { Collection, Db } from 'mongodb';
import { z } from 'zod';
import { type Account, accountSchema, isRemoved } from '../accounts/account.ts';
import { newestRecord } from '../accounts/audit-records.ts';
import { type AuditRecord, auditRecordSchema } from '../accounts/audit-store.ts';
import { endedFurtherKeySchema, furtherKeySchema } from '../accounts/further-key.ts';
import type { KeyUse } from '../store.ts';
import { type CollectionIndexes, index } from './database/mongo-indexes.ts';

/** A write must not undo a last use that was recorded after the account was read. An account without further keys has no field of them. */
const writtenSchema = accountSchema.omit({ id: true, lastUse: true }).extend({
  furtherKeys: noneIfEmpty(furtherKeySchema.omit({ lastUsedAt: true })),
  endedFurtherKeys: noneIfEmpty(endedFurtherKeySchema),
});

function noneIfEmpty<Item extends z.ZodType>(item: Item) {
  return z.array(item).transform((items) => (items.length === 0 ? undefined : items));
}

/** When further keys were last used, by their ids. */
const keyUses = z.record(z.string(), z.date()).default({});

/** Audit records that are not copied yet. */
const outboxSchema = z.array(auditRecordSchema).default([]);

export type AccountDocument = { _id: string } & z.infer<typeof writtenSchema> &
  Partial<Pick<Account, 'lastUse'> & { outbox: AuditRecord[]; furtherKeyUses: z.infer<typeof keyUses> }> &
  Partial<{ name: string; nameStarts: string[] }>;

/** The records in an account's document that wait to be copied. */
export type WaitingAudit = { account: string; records: AuditRecord[] };

export function accountsOf(database: Db): Collection<AccountDocument> {
  // The driver would write an undefined field as null, and the document would no longer be a valid account.
  return database.collection('accounts', { ignoreUndefined: true });
}

/**
 * The indexes are sparse: accounts without a key do not count as having the same key, and few have records in their outbox, or a display
 * name.
 */
export const accountIndexes: CollectionIndexes = {
  collection: 'accounts',
  indexes: [
    index({ 'key.hash': 1 }, { unique: true, sparse: true }),
    index({ 'furtherKeys.hash': 1 }, { unique: true, sparse: true }),
    index({ 'outbox.id': 1 }, { sparse: true }),
    ...['nameStarts', 'removal.isDone'].map((field) => index({ [field]: 1 }, { sparse: true })),
    ...['key', 'furtherKeys'].flatMap((keys) =>
      ['id', 'display'].map((field) => index({ [`${keys}.${field}`]: 1 }, { sparse: true })),
    ),
  ],
};

export function withId({ _id: id, ...fields }: { _id: unknown }): unknown {
  return { ...fields, id };
}

export function readAccount(found: { _id: unknown }): Account {
  const account = accountSchema.parse(withId(found));
  const { furtherKeyUses } = z.object({ furtherKeyUses: keyUses }).parse(found);
  const furtherKeys = account.furtherKeys.map((key) => {
    const lastUsedAt = furtherKeyUses[key.id];
    return lastUsedAt === undefined ? key : { ...key, lastUsedAt };
  });
  return { ...account, furtherKeys };
}

/** Needs only the id and `outbox` of the document. */
export function readWaiting({ _id, outbox }: Pick<AccountDocument, '_id' | 'outbox'>): WaitingAudit {
  return { account: _id, records: outboxSchema.parse(outbox) };
}

export function toNewDocument(next: Account): AccountDocument {
  const record = newestRecord(next);
  return { _id: next.id, ...writtenSchema.parse(next), ...(record && { outbox: [record] }) };
}

/** An empty `$unset` is an error for servers before 5.0, and a field omitted from `$set` would remain. */
export function toUpdate(next: Account, before: Account): object {
  const fields = writtenSchema.parse(next);
  const absent: string[] = (
    ['key', 'guest', 'furtherKeys', 'endedFurtherKeys', 'topUp', 'keysCreated', 'removal'] as const
  ).filter((name) => fields[name] === undefined);
  const kept = new Set(next.furtherKeys.map(({ id }) => id));
  const ended = before.furtherKeys.filter(({ id }) => !kept.has(id));
  absent.push(...ended.map(({ id }) => `furtherKeyUses.${id}`));
  if (isRemoved(next)) absent.push('name', 'nameStarts', 'lastUse');
  const record = newestRecord(next);
  return {
    $set: fields,
    ...(absent.length > 0 && { $unset: Object.fromEntries(absent.map((name) => [name, ''])) }),
    ...(record && { $push: { outbox: record } }),
  };
}

/** The filters contain the complete condition, so that uses of one account may arrive in any order. */
export function noteUse({ account: _id, keyId, isFurther, at }: KeyUse) {
  if (isFurther) {
    const update = { $max: { [`furtherKeyUses.${keyId}`]: at } };
    return { updateOne: { filter: { _id, 'furtherKeys.id': keyId }, update } };
  }
  const isNews = [{ 'lastUse.keyId': { $ne: keyId } }, { 'lastUse.at': { $lt: at } }];
  const filter = { _id, 'key.id': keyId, $or: isNews };
  return { updateOne: { filter, update: { $set: { lastUse: { keyId, at } } } } };
}
