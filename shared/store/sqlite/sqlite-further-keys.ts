import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import type { Account } from '../accounts/account.ts';
import { endedFurtherKeySchema, furtherKeySchema } from '../accounts/further-key.ts';
import { storedJson } from '../adapters/stored-json.ts';
import type { KeyUse } from '../store.ts';

type FurtherKeys = Pick<Account, 'furtherKeys' | 'endedFurtherKeys'>;

const row = z.object({ hash: z.string().nullable(), usedAt: z.int().nullable(), document: storedJson });
const ownerRow = z.object({ account: storedJson, key: storedJson });

const selectKeys = `SELECT hash, used_at AS usedAt, document FROM further_keys WHERE account = ? ORDER BY position`;
const selectOwner = `SELECT accounts.document AS account, further_keys.document AS key
  FROM further_keys JOIN accounts ON id = account WHERE hash IN (SELECT value FROM json_each(?)) LIMIT 1`;
const removeOthers =
  'DELETE FROM further_keys WHERE account = :account AND key_id NOT IN (SELECT value FROM json_each(:kept))';
const writeKey = `INSERT INTO further_keys (account, key_id, position, hash, document)
  VALUES (:account, :id, :position, :hash, :document)
  ON CONFLICT (account, key_id) DO UPDATE SET position = excluded.position, hash = excluded.hash, document = excluded.document`;
const noteUse = `UPDATE further_keys SET used_at = max(coalesce(used_at, 0), :usedAt)
  WHERE account = :account AND key_id = :keyId AND hash IS NOT NULL`;

/**
 * The further keys of an account as rows: a release that does not know them replaces the account's document, and keeps them. A row without a
 * hash has ended. The caller runs writes in the transaction that changes the account.
 */
export function createSqliteFurtherKeys(database: DatabaseSync) {
  const [select, owner] = [database.prepare(selectKeys), database.prepare(selectOwner)];
  const [remove, write, note] = [database.prepare(removeOthers), database.prepare(writeKey), database.prepare(noteUse)];

  return {
    read(account: string): FurtherKeys {
      const rows = select.all(account).map((found) => row.parse(found));
      const furtherKeys = rows.flatMap(({ hash, usedAt, document }) => {
        if (hash === null) return [];
        return furtherKeySchema.parse({
          ...Object(document),
          ...(usedAt !== null && { lastUsedAt: new Date(usedAt) }),
        });
      });
      const ended = rows.filter(({ hash }) => hash === null);
      return { furtherKeys, endedFurtherKeys: ended.map(({ document }) => endedFurtherKeySchema.parse(document)) };
    },

    /** Returns the account that has a further key with one of these hashes, with that key only. */
    ownerOf(hashes: readonly string[]): object | undefined {
      const found = owner.get(JSON.stringify(hashes));
      if (found === undefined) return undefined;
      const { account, key } = ownerRow.parse(found);
      return { ...Object(account), furtherKeys: [key] };
    },

    write(account: string, { furtherKeys, endedFurtherKeys }: FurtherKeys): void {
      const ended = endedFurtherKeys.map((key) => ({ ...key, hash: null }));
      const keys = [...furtherKeys, ...ended];
      remove.run({ account, kept: JSON.stringify(keys.map(({ id }) => id)) });
      keys.forEach((key, position) => {
        const { lastUsedAt, ...document } = key;
        const written = key.hash === null ? { ...document, lastUsedAt } : document;
        write.run({ account, id: key.id, position, hash: key.hash, document: JSON.stringify(written) });
      });
    },

    noteUse({ account, keyId, at }: KeyUse): void {
      note.run({ account, keyId, usedAt: at.getTime() });
    },
  };
}
