import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { lastWith } from '../account-pages.ts';
import { isLive, type Key, withUses } from '../accounts/key.ts';
import { storedJson } from '../adapters/stored-json.ts';
import type { KeySearch, KeyUse } from '../store.ts';

const useRow = z.object({ id: z.string(), usedAt: z.int() });
const ownerRow = z.object({ document: storedJson });
const accountRow = z.object({ account: z.string() });

const selectUses = 'SELECT key_id AS id, used_at AS usedAt FROM keys WHERE account = ? AND used_at IS NOT NULL';
const selectOwner = `SELECT document FROM keys JOIN accounts ON id = account
  WHERE hash IN (SELECT value FROM json_each(?)) LIMIT 1`;
const selectById = 'SELECT DISTINCT account FROM keys WHERE key_id = :id ORDER BY 1 LIMIT :limit';
const selectByStart = 'SELECT DISTINCT account FROM keys WHERE display BETWEEN :from AND :to ORDER BY 1 LIMIT :limit';
const removeOthers = 'DELETE FROM keys WHERE account = :account AND key_id NOT IN (SELECT value FROM json_each(:kept))';
const writeKey = `INSERT INTO keys (account, key_id, hash, display) VALUES (:account, :id, :hash, :display)
  ON CONFLICT (account, key_id) DO UPDATE SET hash = excluded.hash, display = excluded.display`;
const noteUse = `UPDATE keys SET used_at = max(coalesce(used_at, 0), :usedAt)
  WHERE account = :account AND key_id = :keyId`;

/** Finds live keys, and keeps their last uses. The caller runs writes in the transaction that changes the account. */
export function createSqliteKeys(database: DatabaseSync) {
  const [uses, owner] = [database.prepare(selectUses), database.prepare(selectOwner)];
  const [byId, byStart] = [database.prepare(selectById), database.prepare(selectByStart)];
  const [remove, write, note] = [database.prepare(removeOthers), database.prepare(writeKey), database.prepare(noteUse)];

  return {
    /** Returns the keys of an account's document with their last uses. */
    withUses(account: string, keys: readonly Key[]): Key[] {
      const found = uses.all(account).map((row) => useRow.parse(row));
      return withUses(keys, new Map(found.map(({ id, usedAt }) => [id, new Date(usedAt)])));
    },

    /** Returns the document of the account that has a live key with one of these hashes. */
    ownerOf(hashes: readonly string[]): unknown {
      const found = owner.get(JSON.stringify(hashes));
      return found === undefined ? undefined : ownerRow.parse(found).document;
    },

    accountsOf({ limit, ...key }: KeySearch): string[] {
      const rows =
        'id' in key
          ? byId.all({ id: key.id, limit })
          : byStart.all({ from: key.start, to: lastWith(key.start), limit });
      return rows.map((row) => accountRow.parse(row).account);
    },

    write(account: string, keys: readonly Key[]): void {
      const live = keys.filter(isLive);
      remove.run({ account, kept: JSON.stringify(live.map(({ id }) => id)) });
      for (const { id, hash, display } of live) write.run({ account, id, hash, display });
    },

    noteUse({ account, keyId, at }: KeyUse): void {
      note.run({ account, keyId, usedAt: at.getTime() });
    },
  };
}
