import { type FileChange, filePurposes, type StoredFile, storedFileSchema } from '../../batches/batch.ts';
import type { Collection, OpenDocuments } from '../documents/documents.ts';
import { listWanted } from '../documents/lists.ts';
import type { FileStore } from '../files/file-store.ts';
import type { BatchRecords, Page } from './batch-records.ts';

export type FilePage = Page & { purpose?: StoredFile['purpose'] | undefined };

export type FileCount = { files: number; bytes: number };

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

export const fileCollections = [filesOf];

/** Records of files. Their bytes are in `FileStore`. */
export function createFileRecords(open: OpenDocuments) {
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

export type FileRecords = ReturnType<typeof createFileRecords>;

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
