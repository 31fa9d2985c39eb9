import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import test from 'ava';
import { type Collection, type Index, isListIndex } from '../../../../shared/store/documents.ts';
import { collections } from '../../../../shared/store/records/store.ts';
import { createSqliteCalls } from '../../../../shared/store/sqlite/sqlite-calls.ts';
import { createSqliteDocuments, tablesOf } from '../../../../shared/store/sqlite/sqlite-documents.ts';
import { createSelect } from '../../../../shared/store/sqlite/sqlite-select.ts';
import { testDocumentRacesContract, testDocumentsContract, things } from '../documents-contract.ts';

async function createHome() {
  const folder = await mkdtemp(join(tmpdir(), 'sqlite-documents-'));
  const database = new DatabaseSync(join(folder, 'things.db'));
  database.exec(tablesOf(things));
  const calls = createSqliteCalls(database, { flush: async () => {} });
  return {
    open: <Document extends object, Name extends string>(collection: Collection<Document, Name>) =>
      createSqliteDocuments(database, calls, collection),
    async [Symbol.asyncDispose]() {
      database.close();
      await rm(folder, { recursive: true });
    },
  };
}

testDocumentsContract({ test, createHome });
testDocumentRacesContract({ test: test.serial, createHome });

/** How many fields of the index have a value in a query: the next one, or the id, orders the list. */
function knownFields(index: Index | undefined): number[] {
  if (index === undefined) return [0, 1];
  if (isListIndex(index)) return [1];
  if (index.isSparse) return [0];
  return index.isUnique ? [1] : [index.fields.length - 1, index.fields.length];
}

function sumsOf([sum, ...others]: readonly string[] = []) {
  return { ...(sum !== undefined && { sum }), ...(others.length > 0 && { least: others.at(-1) ?? '' }) };
}

/** A statement with several values sorts what it finds. */
type Planned = { sql: string; isSorted: boolean; plan: string[] };

/** Each statement that queries of this index make, with its plan. */
function plansOf(database: DatabaseSync, collection: Collection, name: string): Planned[] {
  const plans: Planned[] = [];
  const prepare = (sql: string): StatementSync => {
    const values = Array(sql.split('?').length - 1).fill('x');
    const steps = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values);
    const isSorted = sql.includes(' IN ');
    plans.push({ sql, isSorted, plan: steps.map(({ detail }) => String(detail)) });
    return database.prepare(sql);
  };
  const select = createSelect(prepare, collection, name);
  const index = collection.indexes[name];
  const after = { value: 'x', id: 'x' };
  for (const known of knownFields(index)) {
    const is = Array.from({ length: known }, (_, number) => (number === 0 ? ['x', 'y'] : 'x'));
    const hasFields = index !== undefined && !isListIndex(index);
    if (hasFields && (known > 0 || index.isSparse))
      select.tally({ is, by: index.fields.at(-1) ?? '', ...sumsOf(index.also) });
    if (hasFields && index.also !== undefined && !index.isSparse) continue;
    for (const [order, isWhole] of [
      ['asc', false],
      ['desc', false],
      ['asc', true],
    ] as const) {
      const page = { is, order, limit: 5, fields: undefined, isWhole };
      // A list without any bound is all of its index.
      if (known > 0 || (hasFields && index.isSparse)) select.places({ ...page, after: undefined });
      if (hasFields && index.isUnique) continue;
      select.places({ ...page, after });
      select.places({ ...page, after: undefined, from: 'a', to: 'b', before: 'c' });
    }
  }
  return plans;
}

/** Of few rows, or those that were found. */
const harmless = /^(USE TEMP B-TREE FOR (DISTINCT|GROUP BY)|CO-ROUTINE|SCAN \(subquery|SCAN json_each|LIST SUBQUERY)/;

for (const collection of [...collections, things]) {
  test(`each query of ${collection.name} reads only the part of an index that it lists`, (t) => {
    using database = new DatabaseSync(':memory:');
    database.exec(tablesOf(collection));
    for (const [name, index] of [['id', undefined] as const, ...Object.entries<Index>(collection.indexes)]) {
      for (const { sql, isSorted, plan } of plansOf(database, collection, name)) {
        const steps = plan.filter(
          (step) => !harmless.test(step) && !(isSorted && step === 'USE TEMP B-TREE FOR ORDER BY'),
        );
        const reads = /^SEARCH \w+ USING (COVERING INDEX|PRIMARY KEY)/;
        const looksUp = /^SEARCH \w+ USING ((COVERING )?INDEX|PRIMARY KEY)/; // one row
        t.is(steps.length, 1, `${sql} ${plan}`);
        t.regex(steps[0] ?? '', index?.isUnique ? looksUp : reads, sql);
      }
    }
  });
}
