import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { storeUnavailable } from './documents.ts';

/**
 * The bytes of files. The store has the owners of the files. A file is written once, and exists completely or not at all
 * (contract.md#r8-files). Every method fails with `ApiError` `SERVICE_UNAVAILABLE`, within seconds, if the store is unreachable.
 */
export interface FileStore {
  /**
   * Writes a file as a stream, never completely in memory. The file is not readable until it is complete; only then it gets its name. If
   * the write fails (also because the file was removed in the meantime), no reader has seen any of it, and `remove` deletes all that is
   * left. An error of `chunks` is thrown unchanged. If two writes of one file run at once, the later one wins. Returns the number of bytes.
   * For an id that is not a file id (`isFileId`) it throws; the other methods treat it as a missing file.
   */
  write(id: string, chunks: AsyncIterable<Uint8Array>): Promise<number>;
  /** Reads at most `bytesMax` bytes from `from` on; fewer only at the end of the file. Returns undefined if there is no such file. */
  read(id: string, from: number, bytesMax: number): Promise<Uint8Array | undefined>;
  /** Removes the file, and all that aborted writes of it have left. Idempotent. */
  remove(id: string): Promise<void>;
}

/** `file-` and 26 characters of Crockford's base 32, as in a ULID: they have no special meaning in a path. */
const fileId = /^file-[0-9A-HJKMNP-TV-Z]{26}$/;

export function isFileId(id: string): boolean {
  return fileId.test(id);
}

/**
 * Splits the bytes into blocks of one size; only the last may be smaller. All blocks share one buffer, which is valid until the next block
 * is requested.
 */
export async function* inBlocks(chunks: AsyncIterable<Uint8Array>, blockBytes: number): AsyncGenerator<Uint8Array> {
  const block = Buffer.alloc(blockBytes);
  let filled = 0;
  for await (const chunk of chunks) {
    for (let from = 0; from < chunk.length; ) {
      const part = chunk.subarray(from, from + blockBytes - filled);
      block.set(part, filled);
      filled += part.length;
      from += part.length;
      if (filled < blockBytes) continue;
      yield block;
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}

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
