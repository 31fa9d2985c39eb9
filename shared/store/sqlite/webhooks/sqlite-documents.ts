import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { captureDecision } from '../../adapters/capture-decision.ts';
import { storedJson } from '../../adapters/stored-json.ts';
import type { DecideDocument } from '../../webhooks/webhook-store.ts';
import type { SqliteCalls } from '../database/sqlite-calls.ts';

type Versioned = { version: number };

/** Documents of one table with the columns `id` and `document`. */
export function createSqliteDocuments<Kept extends Versioned>(
  database: DatabaseSync,
  calls: SqliteCalls,
  { table, schema }: { table: string; schema: z.ZodType<Kept> },
) {
  const row = z.object({ document: storedJson.pipe(schema) });
  const select = database.prepare(`SELECT document FROM ${table} WHERE id = ?`);
  const upsert = database.prepare(
    `INSERT INTO ${table} (id, document) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET document = excluded.document`,
  );

  const parse = (found: unknown): Kept => row.parse(found).document;

  function read(id: string): Kept | undefined {
    const found = select.get(id);
    return found === undefined ? undefined : parse(found);
  }

  function change<Result>(id: string, decide: DecideDocument<Kept, Result>): Result {
    const kept = read(id);
    const { result, next } = decide(kept);
    if (next !== undefined) {
      upsert.run(id, JSON.stringify(schema.parse({ ...next, version: (kept?.version ?? 0) + 1 })));
    }
    return result;
  }

  return {
    parse,

    find: (id: string) => calls.read(() => read(id)),

    /** Decides on a plain read first: the lock that all writers share is taken only if there is something to write. */
    async change<Result>(id: string, decide: DecideDocument<Kept, Result>): Promise<Result> {
      const decideSafely = captureDecision(decide);
      const decision = await calls.read(() => decideSafely(read(id)));
      if (decision.next !== undefined) return (await calls.write(() => change(id, decideSafely)))();
      await calls.untilDurable();
      return decision.result();
    },
  };
}
