import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { type IdRange, listedAccountSchema, rangeOf } from '../account-pages.ts';
import { lastUseOf } from '../accounts/key.ts';
import { readPages } from '../adapters/read-pages.ts';
import { storedJson } from '../adapters/stored-json.ts';
import { readKeyOwner } from '../key-owner.ts';
import type { ListedAccount, Store } from '../store.ts';
import type { SqliteCalls } from './database/sqlite-calls.ts';
import type { createSqliteKeys } from './sqlite-keys.ts';
import type { createSqliteNames } from './sqlite-names.ts';

const accountRow = z
  .object({
    document: storedJson.pipe(listedAccountSchema),
    usedAt: z.int().nullable(),
  })
  .transform(({ document, usedAt }): ListedAccount => {
    return usedAt === null ? document : { ...document, usedAt: new Date(usedAt) };
  });

/** Fewer than for other rows: an account's history is read with it. */
const accountsAtOnce = 20;

/** In SQLite every blob sorts after every text (sqlite.org/datatype3.html, 4.1). */
const afterAnyText = new Uint8Array();

/** `isGone` of account.ts. */
const isGone = `document ->> '$.removal.isDone' IS 1 AND document ->> '$.suspended' = 0`;
const selectPage = (isAfter: '>' | '>=') =>
  `SELECT document, (SELECT max(used_at) FROM keys WHERE account = id) AS usedAt FROM accounts
    WHERE id ${isAfter} :from AND id < :end AND NOT (${isGone}) ORDER BY id LIMIT :limit`;
const selectRemovals = `SELECT id FROM accounts
  WHERE document ->> '$.removal.isDone' = 0 AND id > :after ORDER BY id LIMIT :limit`;

const deleteAccount = `DELETE FROM accounts WHERE id = :id AND document ->> '$.version' = :version
  AND (SELECT coalesce(max(used_at), 0) FROM keys WHERE account = :id) <= :usedAt`;

const accountIdRow = z.object({ id: z.string() });

/** What finds, lists and removes accounts, and records uses of their keys. */
export type SqliteAccounts = Pick<
  Store,
  'findKeyOwner' | 'findAccountsByKey' | 'listAccounts' | 'listRemovals' | 'removeAccount' | 'recordKeyUse'
>;

export function createSqliteAccounts(
  database: DatabaseSync,
  calls: SqliteCalls,
  {
    keys,
    names,
  }: {
    keys: ReturnType<typeof createSqliteKeys>;
    names: Pick<ReturnType<typeof createSqliteNames>, 'remove'>;
  },
): SqliteAccounts {
  const [after, fromOn] = [database.prepare(selectPage('>')), database.prepare(selectPage('>='))];
  const [removeAccount, removals] = [database.prepare(deleteAccount), database.prepare(selectRemovals)];

  return {
    findKeyOwner: (hashes) =>
      calls.read(() => {
        const found = keys.ownerOf(hashes);
        return found === undefined ? undefined : readKeyOwner(found, hashes);
      }),

    findAccountsByKey: (key) => calls.read(() => keys.accountsOf(key)),

    async recordKeyUse(uses) {
      if (uses.length === 0) return;
      await calls.write(() => {
        for (const use of uses) keys.noteUse(use);
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

    removeAccount: ({ id, version, keys: known }) =>
      calls.write(() => {
        const removed = removeAccount.run({ id, version, usedAt: lastUseOf(known)?.getTime() ?? 0 }).changes === 1;
        if (removed) {
          keys.write(id, []);
          names.remove(id);
        }
        return removed;
      }),
  };
}
