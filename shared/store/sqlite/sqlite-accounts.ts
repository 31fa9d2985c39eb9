import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { type IdRange, lastWith, listedAccountSchema, rangeOf } from '../account-pages.ts';
import { readPages } from '../adapters/read-pages.ts';
import { storedJson } from '../adapters/stored-json.ts';
import { readKeyOwner } from '../key-owner.ts';
import type { ListedAccount, Store } from '../store.ts';
import type { SqliteCalls } from './database/sqlite-calls.ts';
import type { createSqliteFurtherKeys } from './sqlite-further-keys.ts';
import type { createSqliteNames } from './sqlite-names.ts';

const accountRow = z
  .object({
    document: storedJson.pipe(listedAccountSchema.omit({ lastUse: true })),
    usedKeyId: z.string().nullable(),
    usedAt: z.int().nullable(),
  })
  .transform(({ document, usedKeyId, usedAt }): ListedAccount => {
    if (usedKeyId === null || usedAt === null) return document;
    return { ...document, lastUse: { keyId: usedKeyId, at: new Date(usedAt) } };
  });

/** Fewer than for other rows: an account's history is read with it. */
const accountsAtOnce = 20;

/** In SQLite every blob sorts after every text (sqlite.org/datatype3.html, 4.1). */
const afterAnyText = new Uint8Array();

/** `isGone` of account.ts. */
const isGone = `document ->> '$.removal.isDone' IS 1 AND document ->> '$.suspended' = 0`;
const selectPage = (isAfter: '>' | '>=') =>
  `SELECT document, key_uses.key_id AS usedKeyId, used_at AS usedAt FROM accounts LEFT JOIN key_uses ON account = id
    WHERE id ${isAfter} :from AND id < :end AND NOT (${isGone}) ORDER BY id LIMIT :limit`;
const selectRemovals = `SELECT id FROM accounts
  WHERE document ->> '$.removal.isDone' = 0 AND id > :after ORDER BY id LIMIT :limit`;

const deleteAccount = `DELETE FROM accounts WHERE id = :id AND document ->> '$.version' = :version
  AND (SELECT used_at FROM key_uses WHERE account = :id) IS :usedAt`;
const deleteUse = 'DELETE FROM key_uses WHERE account = ?';
const deleteKeys = 'DELETE FROM further_keys WHERE account = ?';

const ownerRow = z.object({ document: storedJson });
const selectOwner = 'SELECT document FROM accounts WHERE key_hash IN (SELECT value FROM json_each(?)) LIMIT 1';
const accountIdRow = z.object({ id: z.string() });
const selectByKeyId = `SELECT id FROM accounts WHERE key_id = :id
  UNION SELECT account FROM further_keys WHERE key_id = :id ORDER BY 1 LIMIT :limit`;
const selectByKeyStart = `SELECT id FROM accounts WHERE document ->> '$.key.display' BETWEEN :from AND :to
  UNION SELECT account FROM further_keys WHERE display BETWEEN :from AND :to ORDER BY 1 LIMIT :limit`;
const noteUse = `INSERT INTO key_uses (account, key_id, used_at)
  SELECT id, key_id, :usedAt FROM accounts WHERE id = :account AND key_id = :keyId
  ON CONFLICT (account) DO UPDATE SET key_id = excluded.key_id, used_at = excluded.used_at
    WHERE key_uses.key_id <> excluded.key_id OR used_at < excluded.used_at`;

/** What finds, lists and removes accounts, and records uses of their keys. */
export type SqliteAccounts = Pick<
  Store,
  'findKeyOwner' | 'findAccountsByKey' | 'listAccounts' | 'listRemovals' | 'removeAccount' | 'recordKeyUse'
> & {
  /** Removes what is kept beside an account's document, except its further keys. Part of a transaction. */
  removeDetails(account: string): void;
};

export function createSqliteAccounts(
  database: DatabaseSync,
  calls: SqliteCalls,
  {
    furtherKeys,
    names,
  }: {
    furtherKeys: ReturnType<typeof createSqliteFurtherKeys>;
    names: Pick<ReturnType<typeof createSqliteNames>, 'remove'>;
  },
): SqliteAccounts {
  const [after, fromOn] = [database.prepare(selectPage('>')), database.prepare(selectPage('>='))];
  const [removeAccount, removals] = [database.prepare(deleteAccount), database.prepare(selectRemovals)];
  const [owner, note] = [database.prepare(selectOwner), database.prepare(noteUse)];
  const [removeUse, removeKeys] = [database.prepare(deleteUse), database.prepare(deleteKeys)];
  const [byKeyId, byKeyStart] = [database.prepare(selectByKeyId), database.prepare(selectByKeyStart)];

  function removeDetails(account: string): void {
    removeUse.run(account);
    names.remove(account);
  }

  return {
    removeDetails,
    findKeyOwner: (hashes) =>
      calls.read(() => {
        const row = owner.get(JSON.stringify(hashes));
        const found = row === undefined ? furtherKeys.ownerOf(hashes) : ownerRow.parse(row).document;
        return found === undefined ? undefined : readKeyOwner(found, hashes);
      }),

    findAccountsByKey: ({ limit, ...key }) =>
      calls.read(() => {
        const rows =
          'id' in key
            ? byKeyId.all({ id: key.id, limit })
            : byKeyStart.all({ from: key.start, to: lastWith(key.start), limit });
        return rows.map((row) => accountIdRow.parse(row).id);
      }),

    async recordKeyUse(uses) {
      if (uses.length === 0) return;
      await calls.write(() => {
        for (const use of uses) {
          const { account, keyId, isFurther, at } = use;
          if (isFurther) furtherKeys.noteUse(use);
          else note.run({ account, keyId, usedAt: at.getTime() });
        }
      });
    },

    listAccounts: ({ limit, ...page }) =>
      readPages<ListedAccount, IdRange>({
        limit,
        pageMax: accountsAtOnce,
        after: rangeOf(page),
        placeOf: ({ id }) => rangeOf({ ...page, after: id }),
        read: async ({ after: { from, includesFrom, end = afterAnyText }, limit }) => {
          const select = includesFrom ? fromOn : after;
          const rows = await calls.read(() => select.all({ from, end, limit }));
          return rows.map((row) => accountRow.parse(row));
        },
      }),

    async listRemovals(page) {
      const rows = await calls.read(() => removals.all(page));
      return rows.map((row) => accountIdRow.parse(row).id);
    },

    removeAccount: ({ id, version, lastUse }) =>
      calls.write(() => {
        const removed = removeAccount.run({ id, version, usedAt: lastUse?.at.getTime() ?? null }).changes === 1;
        if (removed) {
          removeDetails(id);
          removeKeys.run(id);
        }
        return removed;
      }),
  };
}
