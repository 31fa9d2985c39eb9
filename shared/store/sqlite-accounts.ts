import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { type IdRange, listedAccountSchema, rangeOf } from './account-pages.ts';
import { readPages } from './read-pages.ts';
import type { SqliteCalls } from './sqlite-calls.ts';
import type { ListedAccount, Store } from './store.ts';
import { storedJson } from './stored-json.ts';

const accountRow = z.object({ document: storedJson.pipe(listedAccountSchema) });

/** Fewer than of other rows: an account's history is read with it. */
const accountsAtOnce = 20;

/** To SQLite any bytes come after any text (sqlite.org/datatype3.html, 4.1). */
const afterAnyText = new Uint8Array();

const selectPage = (isAfter: '>' | '>=') =>
  `SELECT document FROM accounts WHERE id ${isAfter} :from AND id < :end ORDER BY id LIMIT :limit`;

export function createSqliteAccounts(database: DatabaseSync, calls: SqliteCalls): Pick<Store, 'listAccounts'> {
  const [after, fromOn] = [database.prepare(selectPage('>')), database.prepare(selectPage('>='))];

  return {
    listAccounts: ({ limit, ...page }) =>
      readPages<ListedAccount, IdRange>({
        limit,
        pageMax: accountsAtOnce,
        after: rangeOf(page),
        placeOf: ({ id }) => rangeOf({ ...page, after: id }),
        read: async ({ after: { from, includesFrom, end = afterAnyText }, limit }) => {
          const select = includesFrom ? fromOn : after;
          const rows = await calls.read(() => select.all({ from, end, limit }));
          return rows.map((row) => accountRow.parse(row).document);
        },
      }),
  };
}
