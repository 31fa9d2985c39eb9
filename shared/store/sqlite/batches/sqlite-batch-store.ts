import type { DatabaseSync } from 'node:sqlite';
import type { BatchStore } from '../../batches/batch-store.ts';
import type { SqliteCalls } from '../database/sqlite-calls.ts';
import { createSqliteBatches } from './sqlite-batches.ts';
import { createSqliteFiles } from './sqlite-files.ts';
import { createSqliteLines } from './sqlite-lines.ts';
import { createSqliteRooms } from './sqlite-rooms.ts';

export function createSqliteBatchStore(database: DatabaseSync, calls: SqliteCalls): BatchStore {
  return {
    ...createSqliteFiles(database, calls),
    ...createSqliteBatches(database, calls),
    ...createSqliteRooms(database, calls),
    ...createSqliteLines(database, calls),
  };
}
