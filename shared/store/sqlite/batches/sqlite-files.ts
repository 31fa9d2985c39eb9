import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { fileChangeSchema, filePurposes, type StoredFile, storedFileSchema } from '../../../batches/batch.ts';
import { readPages } from '../../adapters/read-pages.ts';
import { storedJson } from '../../adapters/stored-json.ts';
import type { FilePage, FileRecords } from '../../batches/batch-store.ts';
import type { SqliteCalls } from '../database/sqlite-calls.ts';
import { orders, rowsAtOnce } from '../database/sqlite-pages.ts';

const fileRow = z.object({ document: storedJson.pipe(storedFileSchema) });
const countRow = z.object({ files: z.int(), bytes: z.int() });

const insertFile = 'INSERT INTO files (id, document) VALUES (?, ?) ON CONFLICT (id) DO NOTHING';
const selectFile = 'SELECT document FROM files WHERE id = ?';
const patchFile = 'UPDATE files SET document = json_patch(document, :change) WHERE id = :id AND state = :from';
const removeFile = 'DELETE FROM files WHERE id = ?';
const selectToRemove = `SELECT document FROM files
  WHERE state = 'deleting' OR state = 'ready' AND expires_at <= :at OR state = 'writing' AND created_at < :writingSince
  ORDER BY expires_at LIMIT :limit`;
/** Uses the expressions of its index: with the columns, SQLite would read each file's document. */
const countFiles = `SELECT count(*) AS files, coalesce(sum(document ->> '$.bytes'), 0) AS bytes FROM files
  WHERE document ->> '$.account' = ? AND document ->> '$.state' IN ('ready', 'writing')`;

const selectPage = (purpose: string, { isAfter, sorted }: (typeof orders)['asc' | 'desc']) =>
  `SELECT document FROM files WHERE state = 'ready' AND account = :account ${purpose} AND id ${isAfter} :after
    ORDER BY id ${sorted} LIMIT :limit`;

/** The first ids of each key and purpose, then the first of these. */
const selectPageOfKeys = ({ isAfter, sorted }: (typeof orders)['asc' | 'desc']) =>
  `SELECT document FROM files WHERE id IN (
    SELECT found.id FROM json_each(:keyIds) AS made JOIN json_each(:purposes) AS kind JOIN files AS found ON found.id IN (
      SELECT id FROM files WHERE account = :account AND key_id = made.value AND purpose = kind.value AND state = 'ready'
        AND id ${isAfter} :after ORDER BY id ${sorted} LIMIT :limit)
    ORDER BY found.id ${sorted} LIMIT :limit)
  ORDER BY id ${sorted}`;

export function createSqliteFiles(database: DatabaseSync, calls: SqliteCalls): FileRecords {
  const [insert, select] = [database.prepare(insertFile), database.prepare(selectFile)];
  const [patch, remove] = [database.prepare(patchFile), database.prepare(removeFile)];
  const [toRemove, count] = [database.prepare(selectToRemove), database.prepare(countFiles)];
  const pages = { asc: preparePages('asc'), desc: preparePages('desc') };

  function preparePages(order: 'asc' | 'desc') {
    const ofAny = database.prepare(selectPage('', orders[order]));
    const ofOne = database.prepare(selectPage('AND purpose = :purpose', orders[order]));
    return { ofAny, ofOne, ofKeys: database.prepare(selectPageOfKeys(orders[order])) };
  }

  function readPage(
    account: string,
    { order = 'desc', purpose, keyIds }: FilePage,
    page: { after: string; limit: number },
  ) {
    const { ofAny, ofOne, ofKeys } = pages[order];
    if (keyIds !== undefined) {
      const purposes = JSON.stringify(purpose === undefined ? filePurposes : [purpose]);
      return ofKeys.all({ account, keyIds: JSON.stringify(keyIds), purposes, ...page });
    }
    return purpose === undefined ? ofAny.all({ account, ...page }) : ofOne.all({ account, purpose, ...page });
  }

  return {
    insertFile: (file) =>
      calls.write(() => {
        const written = storedFileSchema.parse(file);
        return insert.run(written.id, JSON.stringify(written)).changes === 1;
      }),

    async findFile(id) {
      const row = await calls.read(() => select.get(id));
      return row === undefined ? undefined : fileRow.parse(row).document;
    },

    listFiles: (account, wanted) =>
      readPages<StoredFile, string>({
        limit: wanted.limit,
        pageMax: rowsAtOnce,
        after: wanted.after ?? orders[wanted.order ?? 'desc'].start,
        placeOf: ({ id }) => id,
        read: async (page) => {
          const rows = await calls.read(() => readPage(account, wanted, page));
          return rows.map((row) => fileRow.parse(row).document);
        },
      }),

    changeFile: (id, from, change) =>
      calls.write(() => {
        const written = JSON.stringify(fileChangeSchema.parse(change));
        return patch.run({ id, from, change: written }).changes === 1;
      }),

    async removeFile(id) {
      await calls.write(() => remove.run(id));
    },

    async countFiles(account) {
      return countRow.parse(await calls.read(() => count.get(account)));
    },

    async listFilesToRemove(at, writingSince, limit) {
      const times = { at: at.toISOString(), writingSince: writingSince.toISOString() };
      const rows = await calls.read(() => toRemove.all({ ...times, limit }));
      return rows.map((row) => fileRow.parse(row).document);
    },
  };
}
