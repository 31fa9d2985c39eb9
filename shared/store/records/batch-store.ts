import { type FileChange, filePurposes, type StoredFile, storedFileSchema } from '../../batches/batch.ts';
import { type BatchRoom, bytesBesideFile, leaveRoom } from '../../batches/batch-room.ts';
import { isOver } from '../../batches/batch-states.ts';
import type { Collection, OpenDocuments } from '../documents.ts';
import type { FileStore } from '../file-store.ts';
import { listWanted } from '../lists.ts';
import {
  type BatchRecords,
  batchCollections,
  createBatchRecords,
  createRoomRecords,
  type Page,
  type RoomRecords,
} from './batch-records.ts';
import { createLineRecords, type LineRecords, lineCollections } from './line-records.ts';

type FilePage = Page & { purpose?: StoredFile['purpose'] | undefined };

type FileCount = { files: number; bytes: number };

const filesOf = {
  name: 'files',
  schema: storedFileSchema,
  id: 'id',
  indexes: {
    byPurpose: { fields: ['account', 'state', 'purpose'] },
    byKey: { fields: ['account', 'state', 'keyId', 'purpose'] },
    bySize: { fields: ['account', 'state'], also: ['bytes'] },
    byEnd: { fields: ['state', 'expiresAt'] },
  },
} as const satisfies Collection;

/** Files and batches, the results of their lines, and the lines that were retried (contract.md#r9-batches). Pages are ordered by id. */
export interface BatchStore extends FileRecords, BatchRecords, RoomRecords, LineRecords {}

export const batchStoreCollections = [filesOf, ...batchCollections, ...lineCollections];

export function createBatchStore(open: OpenDocuments): BatchStore {
  const batches = createBatchRecords(open);
  return { ...createFileRecords(open), ...batches, ...createRoomRecords(open), ...createLineRecords(open, batches) };
}

/** Records of files. Their bytes are in `FileStore`. */
function createFileRecords(open: OpenDocuments) {
  const files = open(filesOf);
  return {
    /** Returns false if a file with this id already exists. */
    insertFile: async (file: StoredFile): Promise<boolean> => (await files.insert([file])).length === 0,
    findFile: files.find,

    /** Lists the `ready` files of an account, only those of `purpose` if it is given. */
    listFiles(account: string, { limit, after: id, order = 'desc', purpose, keyIds }: FilePage): Promise<StoredFile[]> {
      const page = { after: id === undefined ? undefined : { id }, order, limit };
      const purposes = purpose === undefined ? filePurposes : [purpose];
      if (keyIds === undefined) return files.list('byPurpose', { is: [account, 'ready', purposes], ...page });
      return files.list('byKey', { is: [account, 'ready', keyIds, purposes], ...page });
    },

    /** Changes the file if it is in the state `from`; returns false if it is not. */
    changeFile: (id: string, from: StoredFile['state'], change: FileChange): Promise<boolean> =>
      files.change(id, (file) => {
        if (file?.state !== from) return { result: false };
        return { result: true, next: { ...file, ...change } };
      }),

    /** Removes the record of a file. Idempotent. */
    removeFile: (id: string): Promise<void> => files.remove([id]),

    /** Counts the `ready` files of an account, and those that are `writing`, with the bytes in their records. */
    async countFiles(account: string): Promise<FileCount> {
      const [counted = { count: 0, sum: 0 }] = await files.tally('bySize', {
        is: [account, ['ready', 'writing']],
        sum: 'bytes',
      });
      return { files: counted.count, bytes: counted.sum };
    },

    /**
     * Lists files to remove: `ready` files that have expired at this time, `deleting` files, and `writing` files created before
     * `writingSince`. They are in order of `expiresAt`, so that under a limit each file has its turn.
     */
    async listFilesToRemove(at: Date, writingSince: Date, limit: number): Promise<StoredFile[]> {
      const isLate = ({ createdAt }: StoredFile) => createdAt < writingSince;
      const found = await Promise.all([
        files.list('byEnd', { is: ['deleting'], limit }),
        files.list('byEnd', { is: ['ready'], to: at, limit }),
        listWanted((query) => files.list('byEnd', query), { is: ['writing'], limit }, isLate),
      ]);
      const byEnd = (one: StoredFile, other: StoredFile) => Number(one.expiresAt) - Number(other.expiresAt);
      return found.flat().sort(byEnd).slice(0, limit);
    },
  };
}

type FileRecords = ReturnType<typeof createFileRecords>;

/**
 * Removes a file, unless an unfinished batch has it as its input. The file is marked before this check: a batch submitted later fails its
 * validation because the file is gone, and no batch loses its file while it runs. The check also runs before the mark, so that a file in
 * use is usually not marked at all. A marked file is removed, by the workers' sweep if necessary.
 */
export async function removeUnusedFile(
  {
    batches,
    files,
  }: {
    batches: Pick<FileRecords, 'changeFile' | 'removeFile'> & Pick<BatchRecords, 'isInputOfUnfinished'>;
    files: FileStore;
  },
  id: string,
): Promise<'removed' | 'in use' | 'absent'> {
  if (await batches.isInputOfUnfinished(id)) return 'in use';
  if (!(await batches.changeFile(id, 'ready', { state: 'deleting' }))) return 'absent';
  if (await batches.isInputOfUnfinished(id)) {
    await batches.changeFile(id, 'deleting', { state: 'ready' });
    return 'in use';
  }
  await files.remove(id);
  await batches.removeFile(id);
  return 'removed';
}

/** How long a batch may be on its way between its entry and the store (contract.md#ho6-room-of-accounts). */
const enteringMsMax = 60_000;

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
