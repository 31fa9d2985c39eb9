import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { storeUnavailable } from '../documents/store-errors.ts';
import { type FileStore, inBlocks, isFileId } from './file-store.ts';

/** Each write to the disk is a round trip to another thread, so lines are not written one by one. */
const blockBytes = 262_144;

const missing = z.object({ code: z.literal('ENOENT') });

/** Stores files in a folder, which is created with the first file. `isOpen` returns whether its database is open. */
export function createFolderFileStore(folder: string, { isOpen }: { isOpen: () => boolean }): FileStore {
  /** Reports every error of the file system as an outage. Errors of callers' own code never pass through here. */
  async function call<T>(work: () => Promise<T>): Promise<T> {
    try {
      if (!isOpen()) throw new Error('the store is closed');
      return await work();
    } catch (error) {
      throw storeUnavailable(error);
    }
  }

  async function writeAll(file: FileHandle, chunks: AsyncIterable<Uint8Array>): Promise<number> {
    let bytes = 0;
    for await (const block of inBlocks(chunks, blockBytes)) {
      await call(() => file.writeFile(block)); // writes all of it, at the file's current position
      bytes += block.length;
    }
    await call(() => file.sync()); // before the rename: after a power cut a named file must not be empty
    return bytes;
  }

  return {
    async write(id, chunks) {
      if (!isFileId(id)) throw new Error(`not a file id: ${id}`);
      await call(() => makeFolder(folder));
      const part = join(folder, `${id}.${randomUUID()}.part`);
      try {
        const bytes = await closing(await call(() => open(part, 'wx', ownerOnly.file)), (file) =>
          writeAll(file, chunks),
        );
        await call(() => rename(part, join(folder, id)));
        await call(() => syncFolder(folder));
        return bytes;
      } catch (error) {
        await rm(part, { force: true }).catch(() => {}); // otherwise `remove` deletes it
        throw error;
      }
    },

    async read(id, from, bytesMax) {
      return call(async () => {
        if (!isFileId(id)) return undefined;
        const file = await open(join(folder, id), 'r').catch(undefinedIfMissing);
        return file && closing(file, () => readRange(file, from, bytesMax));
      });
    },

    async remove(id) {
      await call(async () => {
        if (!isFileId(id)) return;
        const names = await readdir(folder).catch(undefinedIfMissing);
        const own = names?.filter((name) => name === id || name.startsWith(`${id}.`)) ?? [];
        for (const name of own) await rm(join(folder, name), { force: true });
        if (own.length > 0) await syncFolder(folder);
      });
    },
  };
}

async function readRange(file: FileHandle, from: number, bytesMax: number): Promise<Uint8Array> {
  const { size } = await file.stat();
  const bytes = Buffer.allocUnsafe(Math.max(0, Math.min(bytesMax, size - from)));
  let filled = 0;
  while (filled < bytes.length) {
    const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, from + filled);
    if (bytesRead === 0) throw new Error('a file was truncated');
    filled += bytesRead;
  }
  return bytes;
}

/** A new folder is durable only after its parent folder was synced. */
async function makeFolder(folder: string): Promise<void> {
  if ((await mkdir(folder, { recursive: true, mode: ownerOnly.folder })) !== undefined)
    await syncFolder(dirname(folder));
}

/** Makes renames and removals in the folder survive a power cut. */
async function syncFolder(folder: string): Promise<void> {
  await closing(await open(folder, 'r'), (handle) => handle.sync());
}

async function closing<T>(file: FileHandle, work: (file: FileHandle) => Promise<T>): Promise<T> {
  try {
    return await work(file);
  } finally {
    await file.close().catch((error) => {
      throw storeUnavailable(error);
    });
  }
}

function undefinedIfMissing(error: unknown): undefined {
  if (missing.safeParse(error).success) return undefined;
  throw error;
}

/** Modes of files and folders that the SQLite store creates. A umask can only remove permissions. A file that exists keeps its mode. */
export const ownerOnly = { folder: 0o700, file: 0o600 } as const;
