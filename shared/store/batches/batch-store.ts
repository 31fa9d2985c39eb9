import { type BatchRoom, bytesBesideFile, leaveRoom } from '../../batches/batch-room.ts';
import { isOver } from '../../batches/batch-states.ts';
import type { OpenDocuments } from '../documents/documents.ts';
import {
  type BatchRecords,
  batchCollections,
  createBatchRecords,
  createRoomRecords,
  type RoomRecords,
} from './batch-records.ts';
import { createFileRecords, type FileRecords, fileCollections } from './file-records.ts';
import { createLineRecords, type LineRecords, lineCollections } from './line-records.ts';

/** Files and batches, the results of their lines, and the lines that were retried (contract.md#r9-batches). Pages are ordered by id. */
export interface BatchStore extends FileRecords, BatchRecords, RoomRecords, LineRecords {}

export const batchStoreCollections = [...fileCollections, ...batchCollections, ...lineCollections];

export function createBatchStore(open: OpenDocuments): BatchStore {
  const batches = createBatchRecords(open);
  return { ...createFileRecords(open), ...batches, ...createRoomRecords(open), ...createLineRecords(open, batches) };
}

/** How long a batch may be on its way between its entry and the store (contract.md#ho6-room-of-accounts). */
export const enteringMsMax = 60_000;

/** What an account holds. `bytes` are those of its files, with what they take beside them, and of the results of its batches. */
export type AccountBytes = { files: number; fileBytes: number; room: BatchRoom; bytes: number };

type BytesStore = Pick<BatchStore, 'countFiles' | 'findRoom'>;
type RoomStore = Pick<BatchStore, 'changeRoom' | 'findBatch' | 'findRoom' | 'listOpenBatches'>;

/** Reads the files first: results leave the room before their files count, and must not count twice. */
export async function readAccountBytes(store: BytesStore, account: string): Promise<AccountBytes> {
  const { files, bytes } = await store.countFiles(account);
  const room = await store.findRoom(account);
  const fileBytes = bytes + files * bytesBesideFile;
  return { files, fileBytes, room, bytes: fileBytes + room.bytes };
}

/**
 * Removes the entries of batches that are over, and those without a batch, which a process that died has left. In the first minute such a
 * batch may be on its way. `now`: Redis's time. Returns whether there were any.
 */
export async function tidyRoom(store: RoomStore, { account, now }: { account: string; now: number }): Promise<boolean> {
  const { entries } = await store.findRoom(account);
  if (Object.keys(entries).length === 0) return false;
  const unfinished = (await store.listOpenBatches([account])).filter((batch) => !isOver(batch));
  const ids = new Set(unfinished.map(({ id }) => id));
  const gone: string[] = [];
  for (const [id, { since }] of Object.entries(entries)) {
    if (ids.has(id)) continue;
    const isLate = now - since.getTime() > enteringMsMax;
    const batch = isLate ? undefined : await store.findBatch(id);
    if (isLate || (batch !== undefined && isOver(batch))) gone.push(id);
  }
  if (gone.length > 0) await store.changeRoom(account, leaveRoom(gone));
  return gone.length > 0;
}
