import { type BatchRoom, batchRoomSchema, emptyRoom } from '../../../batches/batch-room.ts';
import { captureDecision } from '../../adapters/capture-decision.ts';
import type { RoomRecords } from '../../batches/batch-store.ts';
import type { MongoCalls } from '../database/mongo-calls.ts';
import { changeGuarded } from '../database/mongo-change.ts';
import { refusedAsDuplicates } from '../database/mongo-duplicates.ts';
import { type RoomDocument, readRoomDocument, roomsOf } from './mongo-batch-documents.ts';

export function createMongoRooms({ call, durable, database }: MongoCalls): RoomRecords {
  const rooms = roomsOf(database);

  async function read(account: string): Promise<RoomDocument | undefined> {
    const found = await rooms.findOne({ _id: account }, durable());
    return found === null ? undefined : readRoomDocument(found);
  }

  /** Returns false if the room has changed since the decision. */
  async function write(account: string, next: BatchRoom, decidedOn: RoomDocument | undefined): Promise<boolean> {
    const fields = batchRoomSchema.parse(next);
    if (decidedOn === undefined) {
      const document = { _id: account, revision: 1, ...fields };
      return (await refusedAsDuplicates(rooms.insertMany([document], { ordered: false }))).length === 0;
    }
    const { revision } = decidedOn;
    const update = { $set: { ...fields, revision: revision + 1 } };
    return (await rooms.updateOne({ _id: account, revision }, update)).matchedCount === 1;
  }

  return {
    findRoom: (account) => call(async () => roomOf(await read(account))),

    async changeRoom(account, decide) {
      const decideSafely = captureDecision((room: BatchRoom = emptyRoom) => decide(room));
      const change = {
        read: () => read(account),
        decide: (found: RoomDocument | undefined) => decideSafely(roomOf(found)),
        write: (next: BatchRoom, decidedOn: RoomDocument | undefined) => write(account, next, decidedOn),
      };
      const result = await call((signal) => changeGuarded(change, signal));
      return result();
    },

    /** One update, whose filter is the whole condition: many workers write results of one account. */
    takeBytes: (account, { batch, bytes, bytesMax }) =>
      call(async () => {
        const entry = `entries.${batch}`;
        const filter = { _id: account, [entry]: { $exists: true }, bytes: { $lte: bytesMax - bytes } };
        const update = { $inc: { bytes, [`${entry}.bytes`]: bytes, revision: 1 } };
        if ((await rooms.updateOne(filter, update)).matchedCount === 1) return 'taken';
        return roomOf(await read(account)).entries[batch] === undefined ? 'absent' : 'full';
      }),
  };
}

function roomOf(found: RoomDocument | undefined): BatchRoom {
  return found === undefined ? emptyRoom : batchRoomSchema.parse(found);
}
