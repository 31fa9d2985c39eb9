import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { storeUnavailable } from '../adapters/store-errors.ts';
import { isFileId } from './file-ids.ts';
import type { FileStore } from './file-store.ts';
import { inBlocks } from './in-blocks.ts';
import { ownerOnly } from './owner-only.ts';

/** A write to the disk is a trip to another thread, so lines are not written one by one. */
const blockBytes = 262_144;

const missing = z.object({ code: z.literal('ENOENT') });

/** Files in a folder, which comes into being with the first; `isOpen` is said by the database that it belongs to. */
export function createFolderFileStore(folder: string, { isOpen }: { isOpen: () => boolean }): FileStore {
  /** Whatever the file system throws is an outage; what callers' own code throws never comes through here. */
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
      await call(() => file.writeFile(block)); // all of it, from where the file stands
      bytes += block.length;
    }
    await call(() => file.sync()); // before it has its name: a power cut must not leave one with nothing in it
    return bytes;
  }

  return {
    async write(id, chunks) {
      if (!isFileId(id)) throw new Error(`not an id of a file: ${id}`);
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
        await rm(part, { force: true }).catch(() => {}); // `remove` finds it
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
    if (bytesRead === 0) throw new Error('a file has become shorter');
    filled += bytesRead;
  }
  return bytes;
}

/** A new folder is on the disk only when the one that it is in says so. */
async function makeFolder(folder: string): Promise<void> {
  if ((await mkdir(folder, { recursive: true, mode: ownerOnly.folder })) !== undefined)
    await syncFolder(dirname(folder));
}

/** What was renamed or removed in it stays so after a power cut. */
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
