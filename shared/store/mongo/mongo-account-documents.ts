import type { Collection, Db } from 'mongodb';
import { z } from 'zod';
import { listedAccountSchema } from '../account-pages.ts';
import { type Account, accountSchema, isRemoved, writtenAccountSchema } from '../accounts/account.ts';
import { newestRecord } from '../accounts/audit-records.ts';
import { type AuditRecord, auditRecordSchema } from '../accounts/audit-store.ts';
import { isLive, lastUseOf, withUses } from '../accounts/key.ts';
import type { KeyUse, ListedAccount, Store } from '../store.ts';
import { type CollectionIndexes, index } from './database/mongo-indexes.ts';

const writtenSchema = writtenAccountSchema.omit({ id: true });

/** When live keys were last used, by their ids. */
const keyUses = z.record(z.string(), z.date()).default({});

/** Audit records that are not copied yet. */
const outboxSchema = z.array(auditRecordSchema).default([]);

export type AccountDocument = { _id: string } & z.infer<typeof writtenSchema> &
  Partial<{ keyHashes: string[]; keyUses: z.infer<typeof keyUses>; outbox: AuditRecord[] }> &
  Partial<{ name: string; nameStarts: string[] }>;

/** The records in an account's document that wait to be copied. */
export type WaitingAudit = { account: string; records: AuditRecord[] };

export function accountsOf(database: Db): Collection<AccountDocument> {
  // The driver would write an undefined field as null, and the document would no longer be a valid account.
  return database.collection('accounts', { ignoreUndefined: true });
}

/**
 * The indexes are sparse: accounts without a key do not count as having the same key, and few have records in their outbox, or a display
 * name. `keyHashes` are those of the live keys. An index of `keys.hash` would not do: for ended keys, which have no hash, servers differ.
 */
export const accountIndexes: CollectionIndexes = {
  collection: 'accounts',
  indexes: [
    index({ keyHashes: 1 }, { unique: true, sparse: true }),
    ...['outbox.id', 'nameStarts', 'removal.isDone', 'keys.id', 'keys.display'].map((field) =>
      index({ [field]: 1 }, { sparse: true }),
    ),
  ],
};

export function withId({ _id: id, ...fields }: { _id: unknown }): unknown {
  return { ...fields, id };
}

export function readAccount(found: { _id: unknown }): Account {
  const account = accountSchema.parse(withId(found));
  return { ...account, keys: withUses(account.keys, new Map(Object.entries(usesIn(found)))) };
}

export function readListedAccount(found: { _id: unknown }): ListedAccount {
  const usedAt = lastUseOf(Object.values(usesIn(found)).map((lastUsedAt) => ({ lastUsedAt })));
  return { ...listedAccountSchema.parse(withId(found)), ...(usedAt && { usedAt }) };
}

function usesIn(found: unknown): z.infer<typeof keyUses> {
  return z.object({ keyUses }).parse(found).keyUses;
}

/** Needs only the id and `outbox` of the document. */
export function readWaiting({ _id, outbox }: Pick<AccountDocument, '_id' | 'outbox'>): WaitingAudit {
  return { account: _id, records: outboxSchema.parse(outbox) };
}

export function toNewDocument(next: Account): AccountDocument {
  const record = newestRecord(next);
  return { _id: next.id, ...fieldsOf(next), ...(record && { outbox: [record] }) };
}

function fieldsOf(next: Account) {
  const hashes = next.keys.filter(isLive).map(({ hash }) => hash);
  return { ...writtenSchema.parse(next), ...(hashes.length > 0 && { keyHashes: hashes }) };
}

/** An empty `$unset` is an error for servers before 5.0, and a field omitted from `$set` would remain. */
export function toUpdate(next: Account, before: Account): object {
  const fields = fieldsOf(next);
  const absent: string[] = (['keyHashes', 'guest', 'topUp', 'keysCreated', 'removal'] as const).filter(
    (name) => fields[name] === undefined,
  );
  const live = new Set(next.keys.filter(isLive).map(({ id }) => id));
  const ended = before.keys.filter((key) => isLive(key) && !live.has(key.id));
  absent.push(...ended.map(({ id }) => `keyUses.${id}`));
  if (isRemoved(next)) absent.push('name', 'nameStarts');
  const record = newestRecord(next);
  return {
    $set: fields,
    ...(absent.length > 0 && { $unset: Object.fromEntries(absent.map((name) => [name, ''])) }),
    ...(record && { $push: { outbox: record } }),
  };
}

/** A key that is live has a hash. */
export function liveKey(wanted: { id: string } | { display: object }) {
  return { keys: { $elemMatch: { ...wanted, hash: { $exists: true } } } };
}

export function noteUse({ account: _id, keyId: id, at }: KeyUse) {
  return { updateOne: { filter: { _id, ...liveKey({ id }) }, update: { $max: { [`keyUses.${id}`]: at } } } };
}

/** The account as it was read, and none of its keys was used since. */
export function unchanged({ id: _id, version, keys }: Parameters<Store['removeAccount']>[0]) {
  const uses = keys.filter(isLive).map(({ id, lastUsedAt }) => [`keyUses.${id}`, lastUsedAt ?? { $exists: false }]);
  return { _id, version, ...Object.fromEntries(uses) };
}
