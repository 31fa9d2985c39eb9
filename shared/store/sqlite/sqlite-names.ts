import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { folded, inOrderOfNames, lastNameFrom, type NameStore, nameStartsOf } from '../accounts/name-store.ts';
import type { SqliteCalls } from './database/sqlite-calls.ts';

const namedRow = z.object({ id: z.string(), name: z.string() });

const insertName = `INSERT INTO account_names (account, start, name)
  SELECT id, :start, :name FROM accounts WHERE id = :id AND document ->> '$.removal' IS NULL`;
const deleteNames = 'DELETE FROM account_names WHERE account = ?';
const selectNames = `SELECT DISTINCT account AS id, name FROM account_names
  WHERE account IN (SELECT value FROM json_each(?))`;
const selectNamed = `SELECT account AS id, name FROM account_names WHERE start BETWEEN :from AND :to
  GROUP BY account LIMIT :limit`;

type SqliteNames = { store: NameStore; remove: (account: string) => void };

/** `remove` is part of the transaction that removes an account. */
export function createSqliteNames(database: DatabaseSync, calls: SqliteCalls): SqliteNames {
  const [insert, remove] = [database.prepare(insertName), database.prepare(deleteNames)];
  const [names, named] = [database.prepare(selectNames), database.prepare(selectNamed)];
  const namesOf = (accounts: readonly string[]) => {
    const rows = names.all(JSON.stringify(accounts)).map((row) => namedRow.parse(row));
    return new Map(rows.map(({ id, name }) => [id, name]));
  };
  const store: NameStore = {
    async keepName({ id, name }) {
      if ((await calls.read(() => namesOf([id]))).get(id) === name) return;
      await calls.write(() => {
        remove.run(id);
        for (const start of nameStartsOf(name)) insert.run({ id, start, name });
      });
    },
    findNames: (accounts) => calls.read(() => namesOf(accounts)),
    findNamed: (text, limit) =>
      calls.read(() => {
        const from = folded(text);
        const rows = named.all({ from, to: lastNameFrom(from), limit });
        return inOrderOfNames(rows.map((row) => namedRow.parse(row)));
      }),
  };
  return { store, remove: (account) => void remove.run(account) };
}
