import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { type Batch, batchSchema, batchStates } from '../../../batches/batch.ts';
import { hasJustEnded } from '../../../batches/batch-states.ts';
import { storedDate } from '../../../stored-date.ts';
import { captureDecision } from '../../adapters/capture-decision.ts';
import { readPages } from '../../adapters/read-pages.ts';
import { storedJson } from '../../adapters/stored-json.ts';
import { batchStatsOf, unfinishedStates } from '../../batches/batch-stats.ts';
import type { BatchRecords, DecideBatch } from '../../batches/batch-store.ts';
import type { SqliteCalls } from '../database/sqlite-calls.ts';
import { orders, rowsAtOnce } from '../database/sqlite-pages.ts';

const batchRow = z.object({ document: storedJson.pipe(batchSchema) });
const accountRow = z.object({ account: z.string() });
const groupRow = z.object({ state: z.enum(batchStates), count: z.int(), tokens: z.int(), oldestAt: storedDate });

/** One that exists has the same id or the same claim. */
const insertBatch = 'INSERT INTO batches (id, claim, document) VALUES (?, ?, ?) ON CONFLICT DO NOTHING';
const selectClaimed = 'SELECT document FROM batches WHERE claim = ?';
const updateBatch = 'UPDATE batches SET document = ?, event_waits = event_waits OR ? WHERE id = ?';
const selectEnded = 'SELECT document FROM batches WHERE event_waits ORDER BY id LIMIT ?';
const forgetEnded = 'UPDATE batches SET event_waits = FALSE WHERE id IN (SELECT value FROM json_each(?))';
const deleteBatch = 'DELETE FROM batches WHERE id = ? AND NOT is_open';
const selectBatch = 'SELECT document FROM batches WHERE id = ?';
const selectOpenAccounts = 'SELECT DISTINCT account FROM batches WHERE is_open';
/** The index is named because SQLite would choose one that also has the closed batches of these accounts. */
const selectOpen = `SELECT document FROM batches INDEXED BY open_batches_by_account
  WHERE is_open AND account IN (SELECT value FROM json_each(:accounts)) AND id > :after ORDER BY id LIMIT :limit`;
const selectGroups = `SELECT state, count(*) AS count, sum(tokens) AS tokens, min(created_at) AS oldestAt
  FROM batches WHERE is_open GROUP BY state`;

const isUnfinished = 'is_open AND state IN (SELECT value FROM json_each(:states))';
const selectByInput = `SELECT 1 FROM batches WHERE ${isUnfinished} AND input_file = :file LIMIT 1`;
const states = JSON.stringify(unfinishedStates);

const selectPage = ({ isAfter, sorted }: (typeof orders)['asc' | 'desc']) =>
  `SELECT document FROM batches WHERE account = :account AND id ${isAfter} :after ORDER BY id ${sorted} LIMIT :limit`;

/** The first ids of each key, then the first of these. */
const selectPageOfKeys = ({ isAfter, sorted }: (typeof orders)['asc' | 'desc']) =>
  `SELECT document FROM batches WHERE id IN (
    SELECT found.id FROM json_each(:keyIds) AS made JOIN batches AS found ON found.id IN (
      SELECT id FROM batches WHERE account = :account AND key_id = made.value
        AND id ${isAfter} :after ORDER BY id ${sorted} LIMIT :limit)
    ORDER BY found.id ${sorted} LIMIT :limit)
  ORDER BY id ${sorted}`;

export function createSqliteBatches(database: DatabaseSync, calls: SqliteCalls): BatchRecords {
  const [insert, update] = [database.prepare(insertBatch), database.prepare(updateBatch)];
  const [select, claimed] = [database.prepare(selectBatch), database.prepare(selectClaimed)];
  const remove = database.prepare(deleteBatch);
  const [ended, forget] = [database.prepare(selectEnded), database.prepare(forgetEnded)];

  const read = (id: string) => batchIn(select.get(id));

  function change<Result>(id: string, decide: DecideBatch<Result>): Result {
    const batch = read(id);
    const { result, next } = decide(batch);
    if (batch === undefined || next === undefined) return result;
    update.run(JSON.stringify(toWrite(next, batch)), Number(hasJustEnded(batch, next)), id);
    return result;
  }

  return {
    async insertBatch(batch, claim) {
      const written = batchSchema.parse(batch);
      await calls.write(() => insert.run(written.id, claim ?? null, JSON.stringify(written)));
    },

    findBatch: (id) => calls.read(() => read(id)),

    async findClaimedBatch(claim) {
      const found = await calls.read(() => batchIn(claimed.get(claim)));
      await calls.untilDurable();
      return found;
    },

    listBatches: createListBatches(database, calls),

    /** Decides on a plain read first: the lock that all writers share is taken only if there is something to write. */
    async changeBatch(id, decide) {
      const decideSafely = captureDecision(decide);
      const decision = await calls.read(() => decideSafely(read(id)));
      if (decision.next !== undefined) return (await calls.write(() => change(id, decideSafely)))();
      await calls.untilDurable();
      return decision.result();
    },

    async removeBatch(id) {
      await calls.write(() => remove.run(id));
    },

    async listEndedBatches(limit) {
      const rows = await calls.read(() => ended.all(limit));
      return rows.map((row) => batchRow.parse(row).document);
    },

    async forgetEndedBatches(ids) {
      await calls.write(() => forget.run(JSON.stringify(ids)));
    },

    ...createOpenBatches(database, calls),
  };
}

function createListBatches(database: DatabaseSync, calls: SqliteCalls): BatchRecords['listBatches'] {
  const pages = { asc: preparePages('asc'), desc: preparePages('desc') };

  function preparePages(order: 'asc' | 'desc') {
    const ofKeys = database.prepare(selectPageOfKeys(orders[order]));
    return { ofAll: database.prepare(selectPage(orders[order])), ofKeys };
  }

  return function listBatches(account, { limit, after, order = 'desc', keyIds }) {
    const { ofAll, ofKeys } = pages[order];
    return readPages<Batch, string>({
      limit,
      pageMax: rowsAtOnce,
      after: after ?? orders[order].start,
      placeOf: ({ id }) => id,
      read: async (page) => {
        const rows = await calls.read(() =>
          keyIds === undefined
            ? ofAll.all({ account, ...page })
            : ofKeys.all({ account, keyIds: JSON.stringify(keyIds), ...page }),
        );
        return rows.map((row) => batchRow.parse(row).document);
      },
    });
  };
}

function createOpenBatches(database: DatabaseSync, calls: SqliteCalls) {
  const [openAccounts, open] = [database.prepare(selectOpenAccounts), database.prepare(selectOpen)];
  const [byInput, groups] = [database.prepare(selectByInput), database.prepare(selectGroups)];

  return {
    async listOpenAccounts() {
      const rows = await calls.read(() => openAccounts.all());
      return rows.map((row) => accountRow.parse(row).account);
    },

    listOpenBatches: (accounts) =>
      readPages<Batch, string>({
        pageMax: rowsAtOnce,
        after: '',
        placeOf: ({ id }) => id,
        read: async (page) => {
          const rows = await calls.read(() => open.all({ accounts: JSON.stringify(accounts), ...page }));
          return rows.map((row) => batchRow.parse(row).document);
        },
      }),

    isInputOfUnfinished: (file) => calls.read(() => byInput.get({ file, states }) !== undefined),

    async describeBatches() {
      return batchStatsOf(z.array(groupRow).parse(await calls.read(() => groups.all())));
    },
  } satisfies Partial<BatchRecords>;
}

function batchIn(row: unknown): Batch | undefined {
  return row === undefined ? undefined : batchRow.parse(row).document;
}

function toWrite(next: Batch, { id, version }: Batch): Batch {
  return batchSchema.parse({ ...next, id, version: version + 1 });
}
