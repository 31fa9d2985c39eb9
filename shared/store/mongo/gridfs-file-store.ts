import { addAbortSignal } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { type Collection, type Db, GridFSBucket, type GridFSBucketWriteStream, ObjectId } from 'mongodb';
import { z } from 'zod';
import { storeUnavailable } from '../documents.ts';
import { type FileStore, inBlocks, isFileId } from '../file-store.ts';
import type { MongoCalls } from './mongo-calls.ts';
import { type CollectionIndexes, index } from './mongo-indexes.ts';

const chunkSizeBytes = 261_120; // GridFS's own default: with its other fields, a document is just below a power of two
const readBytesAtOnce = 16 * chunkSizeBytes;
const readAttemptsMax = 3;

/** Stores files in GridFS, each write of a file under its own id. Every call of the database has its own deadline. */
export function createGridFsFileStore(calls: MongoCalls): FileStore {
  const bucket = new GridFSBucket(calls.database, { bucketName, chunkSizeBytes });
  const versions = createFileVersions(calls);

  async function readRange({ _id, bytes }: Version, from: number, to: number): Promise<Uint8Array> {
    const parts: Buffer[] = [];
    for (let start = from; start < Math.min(to, bytes); start += readBytesAtOnce) {
      const end = Math.min(start + readBytesAtOnce, to, bytes);
      const part = await calls.call((signal) =>
        buffer(addAbortSignal(signal, bucket.openDownloadStream(_id, { start, end }))),
      );
      // If the last chunks are missing, the driver treats that as the end of the file.
      if (part.length !== end - start) throw storeUnavailable(new Error('chunks of the file are missing'));
      parts.push(part);
    }
    return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
  }

  return {
    async write(id, source) {
      if (!isFileId(id)) throw new Error(`not a file id: ${id}`);
      const version = await versions.begin(id);
      const stream = bucket.openUploadStreamWithId(version._id, id);
      const discard = () => versions.discard(version);
      const bytes = await upload(source, stream, { call: calls.call, discard });
      if (!(await versions.publish(version, bytes))) {
        await discard();
        throw storeUnavailable(new Error('the file was removed during its write'));
      }
      await versions.removeOlder(id).catch(() => {}); // otherwise `remove` deletes them
      return bytes;
    },

    async read(id, from, bytesMax) {
      for (let attempt = 1; ; attempt += 1) {
        const version = await versions.findNewest(id);
        if (version === undefined) return undefined;
        try {
          return await readRange(version, from, from + bytesMax);
        } catch (error) {
          // Another version may have replaced it during the read, and its chunks may have been removed.
          const now = await versions.findNewest(id);
          if (attempt === readAttemptsMax || now?._id.equals(version._id)) throw error;
        }
      }
    },

    remove: (id) => versions.removeAll(id),
  };
}

/** Returns the number of bytes. After a failure, calls `discard`, unless a chunk may still be written. */
async function upload(
  source: AsyncIterable<Uint8Array>,
  stream: GridFSBucketWriteStream,
  { call, discard }: Pick<MongoCalls, 'call'> & { discard(): Promise<void> },
): Promise<number> {
  stream.on('error', () => {}); // the caller that waits for the write gets the error
  let bytes = 0;
  let isLost = false;
  const send = async (work: () => Promise<void>) => {
    isLost = true;
    await call(work);
    isLost = false;
  };
  try {
    for await (const block of inBlocks(source, chunkSizeBytes)) {
      await send(() => writeTo(stream, block));
      bytes += block.length;
    }
    await send(() => end(stream));
    return bytes;
  } catch (error) {
    stream.destroy();
    // After a timeout, the call may still write its chunk. Then `remove`, which finds the version, deletes it.
    if (!isLost) await discard().catch(() => {});
    throw error;
  }
}

function writeTo(stream: GridFSBucketWriteStream, block: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(block, (error) => (error ? reject(error) : resolve()));
  });
}

function end(stream: GridFSBucketWriteStream): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.once('error', reject);
    stream.end(resolve);
  });
}

const bucketName = 'file_bytes';
const chunksRemovedAtOnce = 64;

/**
 * Each write of a file has a version document from before its first chunk until its last chunk is removed, so that after a crash its
 * remains are found (decisions.md#files-in-gridfs-noted-first). The document gives the file its name: of the `whole` versions, readers get
 * the one with the highest `number`.
 */
const versionSchema = z.object({
  _id: z.instanceof(ObjectId),
  file: z.string(),
  state: z.enum(['writing', 'whole', 'going']),
  number: z.int().nonnegative(),
  bytes: z.int().nonnegative(),
});

type Version = z.infer<typeof versionSchema>;

function versionsOf(database: Db): Collection<Version> {
  return database.collection('file_versions');
}

/** The driver would create the bucket's own indexes in the middle of the first write. */
export const fileIndexes: readonly CollectionIndexes[] = [
  { collection: 'file_versions', indexes: [index({ file: 1, number: 1 })] },
  { collection: `${bucketName}.files`, indexes: [index({ filename: 1, uploadDate: 1 })] },
  { collection: `${bucketName}.chunks`, indexes: [index({ files_id: 1, n: 1 }, { unique: true })] },
];

/** The versions of files, and their removal with all their chunks. */
function createFileVersions({ call, durable, database }: MongoCalls) {
  const chunks = database.collection(`${bucketName}.chunks`);
  const versions = versionsOf(database);

  /** Lists the complete versions, the newest first. */
  async function listComplete(file: string): Promise<Version[]> {
    const options = { sort: { number: -1, _id: -1 }, ...durable() } as const;
    const found = await call(() => versions.find({ file, state: 'whole' }, options).toArray());
    return found.map((version) => versionSchema.parse(version));
  }

  /** Removes the version document last: until then the removal can be repeated. */
  async function discard({ _id }: Version): Promise<void> {
    await call(() => database.collection(`${bucketName}.files`).deleteOne({ _id }));
    while (await call(() => removeChunks(_id)));
    await call(() => versions.deleteOne({ _id }));
  }

  /** Returns whether there were any. */
  async function removeChunks(version: ObjectId): Promise<boolean> {
    const options = { projection: { _id: 1 }, limit: chunksRemovedAtOnce } as const;
    const found = await chunks.find({ files_id: version }, options).toArray();
    if (found.length > 0) await chunks.deleteMany({ files_id: version, _id: { $in: found.map(({ _id }) => _id) } });
    return found.length > 0;
  }

  return {
    /** Adds a version to which the file's bytes can then be written. */
    async begin(file: string): Promise<Version> {
      const version: Version = { _id: new ObjectId(), file, state: 'writing', number: 0, bytes: 0 };
      await call(() => versions.insertOne(version));
      return version;
    },

    /** Makes the version readable. Returns false if the file was removed while it was written. */
    async publish({ _id, file }: Version, bytes: number): Promise<boolean> {
      const number = ((await listComplete(file))[0]?.number ?? 0) + 1;
      const $set = { state: 'whole' as const, number, bytes };
      return call(async () => (await versions.updateOne({ _id, state: 'writing' }, { $set })).matchedCount === 1);
    },

    /** Returns the version that readers get. */
    findNewest: async (file: string): Promise<Version | undefined> => (await listComplete(file))[0],
    discard,

    /**
     * Keeps the highest version, no matter which process wrote it: of two concurrent calls, neither removes the version that the other
     * keeps.
     */
    async removeOlder(file: string): Promise<void> {
      const [, ...older] = await listComplete(file);
      for (const version of older) await discard(version);
    },

    async removeAll(file: string): Promise<void> {
      // This comes first, so that a version that is being written never becomes the file, and no reader gets a half removed file.
      await call(() => versions.updateMany({ file }, { $set: { state: 'going' } }));
      const going = await call(() => versions.find({ file }, durable()).toArray());
      for (const version of going) await discard(version);
    },
  };
}
