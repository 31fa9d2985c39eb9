import { z } from 'zod';
import { storedDate as date } from '../../stored-values.ts';
import type { Collection } from '../documents/documents.ts';
import { type Account, accountSchema, isRemoved } from './account.ts';
import { newestRecord } from './audit-records.ts';
import { isLive, type Key } from './key.ts';

/**
 * What is kept beside an account in its document, and is no part of its version. `keyUses`: when live keys were last used, by their ids.
 * `outbox`: audit records that are not copied yet. `removing` is the account's own id while its removal is not done. `name` is its display
 * name, which is found by `nameStarts`.
 */
const documentSchema = accountSchema.extend({
  keyUses: z.record(z.string(), date).default({}),
  outbox: z.array(z.looseObject({ id: z.string() })).default([]),
  removing: z.string().optional(),
  name: z.string().optional(),
  nameStarts: z.array(z.string()).default([]),
});

export type AccountDocument = z.infer<typeof documentSchema>;

/** A key that has ended has no hash. */
const having = 'hash';

export const accountsOf = {
  name: 'accounts',
  schema: documentSchema,
  id: 'id',
  indexes: {
    byKeyHash: { list: 'keys', field: 'hash', isUnique: true },
    byKeyId: { list: 'keys', field: 'id', having },
    byKeyStart: { list: 'keys', field: 'display', having },
    byName: { list: 'nameStarts' },
    withOutbox: { list: 'outbox', field: 'id' },
    removing: { fields: ['removing'], isSparse: true },
  },
  uses: { field: 'keyUses', index: 'byKeyId' },
  /** They have their keys and their history. */
  atOnce: 20,
} as const satisfies Collection;

export function toAccount({ keyUses, outbox, removing, name, nameStarts, ...account }: AccountDocument): Account {
  const keys = account.keys.map((key) => {
    const lastUsedAt = keyUses[key.id];
    return lastUsedAt === undefined ? key : { ...key, lastUsedAt };
  });
  return { ...account, keys };
}

/** Returns the document after a change of the account, with the audit record of the change. */
export function toDocument(next: Account, kept: AccountDocument | undefined): AccountDocument {
  const record = newestRecord(next);
  const { name, nameStarts = [], outbox = [] } = kept ?? {};
  return {
    ...next,
    keys: next.keys.map(withoutUse),
    keyUses: {},
    outbox: record === undefined ? outbox : [...outbox, record],
    nameStarts: isRemoved(next) ? [] : nameStarts,
    ...(name !== undefined && !isRemoved(next) && { name }),
    ...(next.removal?.isDone === false && { removing: next.id }),
  };
}

/** The last use of a live key is in `keyUses`: a change must not undo a use. */
function withoutUse(key: Key): Key {
  if (!isLive(key)) return key;
  const { lastUsedAt: _, ...fields } = key;
  return fields;
}
