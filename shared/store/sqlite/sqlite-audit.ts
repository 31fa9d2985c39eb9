import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { z } from 'zod';
import { type AuditPage, type AuditRecord, type AuditStore, auditRecordSchema } from '../accounts/audit-store.ts';
import { readPages } from '../adapters/read-pages.ts';
import { storedJson } from '../adapters/stored-json.ts';
import type { SqliteCalls } from './database/sqlite-calls.ts';
import { rowsAtOnce } from './database/sqlite-pages.ts';

const recordRow = z.object({ document: storedJson.pipe(auditRecordSchema) });

const insertRecord = 'INSERT INTO audit_records (id, document) VALUES (?, ?) ON CONFLICT (id) DO NOTHING';

const selectRecords = (conditions: string) =>
  `SELECT document FROM audit_records WHERE ${conditions} id < :after ORDER BY id DESC LIMIT :limit`;

/** To be called within a transaction. An existing record remains unchanged. */
export type InsertAuditRecord = (record: AuditRecord) => void;

/** A record is inserted in the transaction that makes its change, so there is no outbox, and nothing to copy. */
export function createSqliteAudit(
  database: DatabaseSync,
  calls: SqliteCalls,
): { store: AuditStore; insertRecord: InsertAuditRecord } {
  const insert = database.prepare(insertRecord);
  const select = {
    all: database.prepare(selectRecords('')),
    account: database.prepare(selectRecords('account = :account AND')),
    actor: database.prepare(selectRecords('actor = :actor AND')),
    both: database.prepare(selectRecords('account = :account AND actor = :actor AND')),
  };

  return {
    insertRecord(record) {
      const written = auditRecordSchema.parse(record);
      insert.run(written.id, JSON.stringify(written));
    },
    store: {
      listAudit: (page) =>
        readPages<AuditRecord, string>({
          limit: page.limit,
          pageMax: rowsAtOnce,
          after: page.after ?? '~',
          placeOf: ({ id }) => id,
          read: async (place) => {
            const rows = await calls.read(() => selectFor(select, page, place));
            return rows.map((row) => recordRow.parse(row).document);
          },
        }),

      copyAudit: () => calls.read(() => undefined),

      copyAuditAfter: () => calls.read(() => ({ copied: 0, last: undefined, unreadable: [] })),
    },
  };
}

type Selects = Record<'all' | 'account' | 'actor' | 'both', StatementSync>;

function selectFor(select: Selects, { account, actor }: AuditPage, place: { after: string; limit: number }): unknown[] {
  if (account !== undefined && actor !== undefined) return select.both.all({ account, actor, ...place });
  if (account !== undefined) return select.account.all({ account, ...place });
  return actor === undefined ? select.all.all({ ...place }) : select.actor.all({ actor, ...place });
}
