import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { type BatchRoom, batchRoomSchema, type DecideRoom, emptyRoom, takeBytes } from '../../../batches/batch-room.ts';
import { captureDecision } from '../../adapters/capture-decision.ts';
import { storedJson } from '../../adapters/stored-json.ts';
import type { RoomRecords } from '../../batches/batch-store.ts';
import type { SqliteCalls } from '../database/sqlite-calls.ts';

const roomRow = z.object({ document: storedJson.pipe(batchRoomSchema) });

const selectRoom = 'SELECT document FROM batch_rooms WHERE account = ?';
const writeRoom = `INSERT INTO batch_rooms (account, document) VALUES (?, ?)
  ON CONFLICT (account) DO UPDATE SET document = excluded.document`;

export function createSqliteRooms(database: DatabaseSync, calls: SqliteCalls): RoomRecords {
  const [select, write] = [database.prepare(selectRoom), database.prepare(writeRoom)];

  function read(account: string): BatchRoom {
    const row = select.get(account);
    return row === undefined ? emptyRoom : roomRow.parse(row).document;
  }

  /** Decides on a plain read first, like `changeBatch`. */
  async function changeRoom<Result>(account: string, decide: DecideRoom<Result>): Promise<Result> {
    const decideSafely = captureDecision((room: BatchRoom = emptyRoom) => decide(room));
    const decision = await calls.read(() => decideSafely(read(account)));
    if (decision.next === undefined) {
      await calls.untilDurable();
      return decision.result();
    }
    const changed = await calls.write(() => {
      const { result, next } = decideSafely(read(account));
      if (next !== undefined) write.run(account, JSON.stringify(batchRoomSchema.parse(next)));
      return result;
    });
    return changed();
  }

  return {
    findRoom: (account) => calls.read(() => read(account)),
    changeRoom,
    takeBytes: (account, wanted) => changeRoom(account, takeBytes(wanted)),
  };
}
