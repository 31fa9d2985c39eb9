import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import type { FurtherKey } from '../accounts/further-key.ts';
import { storedJson } from '../adapters/stored-json.ts';
import type { KeyUse } from '../store.ts';

const useRow = z.object({ id: z.string(), usedAt: z.int() });
const ownerRow = z.object({ document: storedJson });

const selectUses = 'SELECT key_id AS id, used_at AS usedAt FROM further_keys WHERE account = ? AND used_at IS NOT NULL';
const selectOwner = `SELECT document FROM further_keys JOIN accounts ON id = account
  WHERE hash IN (SELECT value FROM json_each(?)) LIMIT 1`;
const removeOthers =
  'DELETE FROM further_keys WHERE account = :account AND key_id NOT IN (SELECT value FROM json_each(:kept))';
const writeKey = `INSERT INTO further_keys (account, key_id, hash, display) VALUES (:account, :id, :hash, :display)
  ON CONFLICT (account, key_id) DO UPDATE SET hash = excluded.hash, display = excluded.display`;
const noteUse = `UPDATE further_keys SET used_at = max(coalesce(used_at, 0), :usedAt)
  WHERE account = :account AND key_id = :keyId`;

/** Finds further keys, and keeps their last uses. The caller runs writes in the transaction that changes the account. */
export function createSqliteFurtherKeys(database: DatabaseSync) {
  const [uses, owner] = [database.prepare(selectUses), database.prepare(selectOwner)];
  const [remove, write, note] = [database.prepare(removeOthers), database.prepare(writeKey), database.prepare(noteUse)];

  return {
    /** Returns the keys of an account's document with their last uses. */
    withUses(account: string, keys: FurtherKey[]): FurtherKey[] {
      if (keys.length === 0) return keys;
      const found = uses.all(account).map((row) => useRow.parse(row));
      const usedAt = new Map(found.map(({ id, usedAt }) => [id, new Date(usedAt)]));
      return keys.map((key) => {
        const lastUsedAt = usedAt.get(key.id);
        return lastUsedAt === undefined ? key : { ...key, lastUsedAt };
      });
    },

    /** Returns the document of the account that has a further key with one of these hashes. */
    ownerOf(hashes: readonly string[]): unknown {
      const found = owner.get(JSON.stringify(hashes));
      return found === undefined ? undefined : ownerRow.parse(found).document;
    },

    write(account: string, keys: readonly FurtherKey[]): void {
      remove.run({ account, kept: JSON.stringify(keys.map(({ id }) => id)) });
      for (const { id, hash, display } of keys) write.run({ account, id, hash, display });
    },

    noteUse({ account, keyId, at }: KeyUse): void {
      note.run({ account, keyId, usedAt: at.getTime() });
    },
  };
}
