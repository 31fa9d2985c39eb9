import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { z } from 'zod';
import { accountSchema } from '../accounts/account.ts';
import { pageOf, type Trail, unrecorded } from '../accounts/audit-records.ts';
import { type AuditPage, type AuditRecord, type AuditStore, auditRecordSchema } from '../accounts/audit-store.ts';
import { readPages } from '../adapters/read-pages.ts';
import { storedJson } from '../adapters/stored-json.ts';
import type { SqliteCalls } from './database/sqlite-calls.ts';
import { rowsAtOnce } from './database/sqlite-pages.ts';

const idRow = z.object({ id: z.string() });
const recordRow = z.object({ document: storedJson.pipe(auditRecordSchema) });

const trailRow = z.object({
  document: storedJson.pipe(accountSchema.pick({ id: true, version: true, changes: true })),
  recorded: z.int(),
});

const trailColumns = `document, coalesce(document ->> '$.recorded', 0) AS recorded`;
const selectTrail = `SELECT ${trailColumns} FROM accounts WHERE id = ?`;
/** Matches the condition of the index that has only these accounts. */
const selectBehind = `SELECT id FROM accounts
  WHERE document ->> '$.version' > coalesce(document ->> '$.recorded', 0) AND id > :after ORDER BY id LIMIT :limit`;
const setRecorded = `UPDATE accounts SET document = json_set(document, '$.recorded', :version) WHERE id = :id`;
const insertRecord = 'INSERT INTO audit_records (id, document) VALUES (?, ?) ON CONFLICT (id) DO NOTHING';

const selectRecords = (conditions: string) =>
  `SELECT document FROM audit_records WHERE ${conditions} id < :after ORDER BY id DESC LIMIT :limit`;

/** To be called within a transaction. An existing record remains unchanged. */
export type InsertRecords = (records: readonly AuditRecord[]) => void;

/**
 * A record is inserted in the transaction that makes its change, so there is no outbox. Only changes made by the release before audit
 * records wait to be copied; that release also removes `recorded`.
 */
export function createSqliteAudit(
  database: DatabaseSync,
  calls: SqliteCalls,
): { store: AuditStore; insertRecords: InsertRecords } {
  const insertRecords = createInsertRecords(database);
  const readTrail = createReadTrail(database);
  const select = {
    all: database.prepare(selectRecords('')),
    account: database.prepare(selectRecords('account = :account AND')),
    actor: database.prepare(selectRecords('actor = :actor AND')),
    both: database.prepare(selectRecords('account = :account AND actor = :actor AND')),
  };

  return {
    insertRecords,
    store: {
      async listAudit(page) {
        const { account, limit } = page;
        const found = account === undefined ? undefined : await calls.read(() => readTrail(account));
        const kept = await readPages<AuditRecord, string>({
          limit,
          pageMax: rowsAtOnce,
          after: page.after ?? '~',
          placeOf: ({ id }) => id,
          read: async (place) => {
            const rows = await calls.read(() => selectFor(select, page, place));
            return rows.map((row) => recordRow.parse(row).document);
          },
        });
        return pageOf(page, found === undefined ? [] : unrecorded(found), kept);
      },

      ...createCopyAudit({ database, calls, insertRecords, readTrail }),
    },
  };
}

type ReadTrail = (account: string) => Trail | undefined;

function createReadTrail(database: DatabaseSync): ReadTrail {
  const trail = database.prepare(selectTrail);
  return (account) => {
    const row = trail.get(account);
    return row === undefined ? undefined : toTrail(row);
  };
}

function createInsertRecords(database: DatabaseSync): InsertRecords {
  const insert = database.prepare(insertRecord);
  return (records) => {
    for (const record of records) {
      const written = auditRecordSchema.parse(record);
      insert.run(written.id, JSON.stringify(written));
    }
  };
}

function createCopyAudit(deps: {
  database: DatabaseSync;
  calls: SqliteCalls;
  insertRecords: InsertRecords;
  readTrail: ReadTrail;
}): Pick<AuditStore, 'copyAudit' | 'copyAuditAfter'> {
  const { database, calls, insertRecords, readTrail } = deps;
  const [setTrail, behind] = [database.prepare(setRecorded), database.prepare(selectBehind)];

  /** Returns the number of records that were missing. */
  async function copy(account: string): Promise<number> {
    return calls.write(() => {
      const found = readTrail(account);
      if (found === undefined) return 0;
      const records = unrecorded(found);
      insertRecords(records);
      setTrail.run({ id: account, version: found.account.version });
      return records.length;
    });
  }

  return {
    async copyAudit(account) {
      // The lock that all writers share is taken only if there is something to write.
      const found = await calls.read(() => readTrail(account));
      if (found !== undefined && unrecorded(found).length > 0) await copy(account);
    },

    async copyAuditAfter(account, limit) {
      const found = await calls.read(() => behind.all({ after: account, limit }));
      const accounts = found.map((row) => idRow.parse(row).id);
      const unreadable: string[] = [];
      let copied = 0;
      for (const each of accounts) {
        try {
          copied += await copy(each);
        } catch (error) {
          if (!(error instanceof z.ZodError)) throw error;
          unreadable.push(each);
        }
      }
      return { copied, last: accounts.length < limit ? undefined : accounts.at(-1), unreadable };
    },
  };
}

type Selects = Record<'all' | 'account' | 'actor' | 'both', StatementSync>;

function selectFor(select: Selects, { account, actor }: AuditPage, place: { after: string; limit: number }): unknown[] {
  if (account !== undefined && actor !== undefined) return select.both.all({ account, actor, ...place });
  if (account !== undefined) return select.account.all({ account, ...place });
  return actor === undefined ? select.all.all({ ...place }) : select.actor.all({ actor, ...place });
}

function toTrail(row: unknown): Trail {
  const { document, recorded } = trailRow.parse(row);
  return { account: document, recorded };
}
