import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { captureDecision } from '../adapters/capture-decision.ts';
import { readPages } from '../adapters/read-pages.ts';
import { storedJson } from '../adapters/stored-json.ts';
import { type ShownCodeState, type TopUpCode, topUpCodeSchema } from '../top-up-codes/top-up-code.ts';
import type { DecideCode, TopUpCodeStore } from '../top-up-codes/top-up-code-store.ts';
import type { SqliteCalls } from './database/sqlite-calls.ts';
import { rowsAtOnce } from './database/sqlite-pages.ts';

const codeRow = z.object({ document: storedJson.pipe(topUpCodeSchema) });

const insertCode = 'INSERT INTO top_up_codes (id, document) VALUES (?, ?)';
const updateCode = 'UPDATE top_up_codes SET document = ? WHERE id = ?';
const selectById = 'SELECT document FROM top_up_codes WHERE id = ?';
const selectByHash = 'SELECT document FROM top_up_codes WHERE hash = ?';
const selectClaimed = `SELECT document FROM top_up_codes
  WHERE state = 'claimed' AND document ->> '$.redeemed.at' < :before AND id > :after ORDER BY id LIMIT :limit`;

/** Times are ISO 8601 text of one length, so they sort as text. */
const conditions: Record<ShownCodeState | 'all', string> = {
  all: '',
  unused: `state = 'unused' AND (expires_at IS NULL OR expires_at > :now) AND`,
  expired: `state = 'unused' AND expires_at <= :now AND`,
  redeemed: `state IN ('claimed', 'redeemed') AND`,
  revoked: `state = 'revoked' AND`,
};
/** Binding a parameter that a statement does not have is an error. */
const dependOnNow: readonly string[] = ['unused', 'expired'];

const selectPage = (condition: string) =>
  `SELECT document FROM top_up_codes WHERE ${condition} id < :after ORDER BY id DESC LIMIT :limit`;

export function createSqliteTopUpCodes(database: DatabaseSync, calls: SqliteCalls): TopUpCodeStore {
  const [insert, update] = [database.prepare(insertCode), database.prepare(updateCode)];
  const [byId, byHash] = [database.prepare(selectById), database.prepare(selectByHash)];
  const claimed = database.prepare(selectClaimed);
  const pages = Object.fromEntries(
    Object.entries(conditions).map(([state, condition]) => [state, database.prepare(selectPage(condition))]),
  );

  const read = (id: string) => codeIn(byId.get(id));

  function change<Result>(id: string, decide: DecideCode<Result>): Result {
    const { result, next } = decide(read(id));
    if (next !== undefined) update.run(JSON.stringify(topUpCodeSchema.parse(next)), id);
    return result;
  }

  return {
    insertCodes: (codes) =>
      calls.write(() => {
        for (const code of codes) insert.run(code.id, JSON.stringify(topUpCodeSchema.parse(code)));
      }),

    async findCode(hash) {
      return calls.read(() => codeIn(byHash.get(hash)));
    },

    /** Decides on a plain read first: the lock that all writers share is taken only if there is something to write. */
    async changeCode(id, decide) {
      const decideSafely = captureDecision(decide);
      const decision = await calls.read(() => decideSafely(read(id)));
      if (decision.next !== undefined) return (await calls.write(() => change(id, decideSafely)))();
      await calls.untilDurable();
      return decision.result();
    },

    listCodes: ({ state = 'all', now, after = '~', limit }) =>
      readPages<TopUpCode, string>({
        ...{ limit, after, pageMax: rowsAtOnce, placeOf },
        read: async (page) => {
          const at = dependOnNow.includes(state) ? { now: now.toISOString() } : {};
          const rows = await calls.read(() => pages[state]?.all({ ...at, ...page }) ?? []);
          return rows.map((row) => codeRow.parse(row).document);
        },
      }),

    async listClaimedCodes({ before, ...page }) {
      const rows = await calls.read(() => claimed.all({ before: before.toISOString(), ...page }));
      return rows.map((row) => codeRow.parse(row).document);
    },
  };
}

function placeOf({ id }: TopUpCode): string {
  return id;
}

function codeIn(row: unknown): TopUpCode | undefined {
  return row === undefined ? undefined : codeRow.parse(row).document;
}
