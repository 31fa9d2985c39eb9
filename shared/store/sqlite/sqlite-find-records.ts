import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { storedJson } from '../adapters/stored-json.ts';
import { type UsageRecord, usageRecordSchema } from '../usage/usage-record.ts';
import type { UsageTables } from '../usage/usage-tables.ts';
import type { SqliteCalls } from './database/sqlite-calls.ts';

const recordRow = z.object({ document: storedJson.pipe(usageRecordSchema) });

const selectRecord = 'SELECT document FROM usage_records WHERE request_id = ?';
const selectByAnswer = `SELECT document FROM usage_records
  WHERE account = ? AND document ->> '$.answerId' = ? ORDER BY document ->> '$.admittedAt' DESC LIMIT 1`;
const selectPage = `SELECT document FROM usage_records
  WHERE account = :account AND document ->> '$.admittedAt' <= :admittedAt
    AND (document ->> '$.admittedAt' < :admittedAt OR request_id < :requestId)
  ORDER BY document ->> '$.admittedAt' DESC, request_id DESC LIMIT :limit`;

/** As text, it comes after every time. */
const afterAllTimes = '~';

/** Finds and lists whole records by the indexes that are made for that (sqlite-schema.ts). */
export function createFindRecords(
  database: DatabaseSync,
  { read }: Pick<SqliteCalls, 'read'>,
): Pick<UsageTables, 'findRecord' | 'findByAnswer' | 'listRecords'> {
  const [byId, byAnswer] = [database.prepare(selectRecord), database.prepare(selectByAnswer)];
  const pageOf = database.prepare(selectPage);
  return {
    findRecord: async (requestId) => toRecord(await read(() => byId.get(requestId))),
    findByAnswer: async (account, answerId) => toRecord(await read(() => byAnswer.get(account, answerId))),
    async listRecords(account, { before, limit }) {
      const place = {
        admittedAt: before?.admittedAt.toISOString() ?? afterAllTimes,
        requestId: before?.requestId ?? '',
      };
      const rows = await read(() => pageOf.all({ account, ...place, limit }));
      await nextTurn();
      return rows.map((row) => recordRow.parse(row).document);
    },
  };
}

function toRecord(row: unknown): UsageRecord | undefined {
  return row === undefined ? undefined : recordRow.parse(row).document;
}
