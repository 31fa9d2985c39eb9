import { addAbortSignal } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { type Collection, type Db, GridFSBucket, type GridFSBucketWriteStream, ObjectId } from 'mongodb';
import { z } from 'zod';
import { storeUnavailable } from '../adapters/store-errors.ts';
import { isFileId } from '../files/file-ids.ts';
import type { FileStore } from '../files/file-store.ts';
import { inBlocks } from '../files/in-blocks.ts';
import type { MongoCalls } from './mongo-calls.ts';

const bucketName = 'file_bytes';
const chunkSizeBytes = 261_120; // GridFS's own default: with its other fields a document is just below a power of two
const readBytesAtOnce = 16 * chunkSizeBytes;
const chunksRemovedAtOnce = 64;
const readAttemptsMax = 3;

/**
 * Each writing of a file has one of these from before its first chunk until its last one is gone, so that whatever dies, what it
 * left is found. It is the file's name: of those that are `whole` the one with the highest `number` is what readers get.
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

/** The bucket's own are those that the driver makes where there is no file yet, in the midst of the first writing. */
export async function createFileIndexes(database: Db): Promise<void> {
  await versionsOf(database).createIndex({ file: 1, number: 1 });
  await database.collection(`${bucketName}.files`).createIndex({ filename: 1, uploadDate: 1 });
  await database.collection(`${bucketName}.chunks`).createIndex({ files_id: 1, n: 1 }, { unique: true });
}

/** Files in GridFS, each writing of one under an id of its own. Every call of the database has its own deadline. */
export function createGridFsFileStore({ call, lasting, database }: MongoCalls): FileStore {
  const bucket = new GridFSBucket(database, { bucketName, chunkSizeBytes });
  const chunks = database.collection(`${bucketName}.chunks`);
  const versions = versionsOf(database);

  /** The one that readers get first. */
  async function wholeOf(file: string): Promise<Version[]> {
    const options = { sort: { number: -1, _id: -1 }, ...lasting() } as const;
    const found = await call(() => versions.find({ file, state: 'whole' }, options).toArray());
    return found.map((version) => versionSchema.parse(version));
  }

  async function upload(version: Version, source: AsyncIterable<Uint8Array>): Promise<number> {
    const stream = bucket.openUploadStreamWithId(version._id, version.file);
    stream.on('error', () => {}); // whoever waits for the write is told
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
      // A call that was given up may still bring its chunk: then it is left to `remove`, which finds the version.
      if (!isLost) await discard(version).catch(() => {});
      throw error;
    }
  }

  /** From then on readers get it; false where it was removed while it was written. */
  async function publish({ _id, file }: Version, bytes: number): Promise<boolean> {
    const number = ((await wholeOf(file))[0]?.number ?? 0) + 1;
    const $set = { state: 'whole' as const, number, bytes };
    return call(async () => (await versions.updateOne({ _id, state: 'writing' }, { $set })).matchedCount === 1);
  }

  /** The highest one is left, whoever wrote it: of two who do this at once neither removes what the other leaves. */
  async function removeOlder(file: string): Promise<void> {
    const [, ...older] = await wholeOf(file);
    for (const version of older) await discard(version);
  }

  /** The version itself last: until then it can be done again. */
  async function discard({ _id }: Version): Promise<void> {
    await call(() => database.collection(`${bucketName}.files`).deleteOne({ _id }));
    while (await call(() => removeChunks(_id)));
    await call(() => versions.deleteOne({ _id }));
  }

  /** Whether there were any. */
  async function removeChunks(version: ObjectId): Promise<boolean> {
    const options = { projection: { _id: 1 }, limit: chunksRemovedAtOnce } as const;
    const found = await chunks.find({ files_id: version }, options).toArray();
    if (found.length > 0) await chunks.deleteMany({ _id: { $in: found.map(({ _id }) => _id) } });
    return found.length > 0;
  }

  async function readRange({ _id, bytes }: Version, from: number, to: number): Promise<Uint8Array> {
    const parts: Buffer[] = [];
    for (let start = from; start < Math.min(to, bytes); start += readBytesAtOnce) {
      const end = Math.min(start + readBytesAtOnce, to, bytes);
      const part = await call((signal) =>
        buffer(addAbortSignal(signal, bucket.openDownloadStream(_id, { start, end }))),
      );
      // The driver takes chunks that are missing from the last one on for the end of the file.
      if (part.length !== end - start) throw storeUnavailable(new Error('chunks of the file are missing'));
      parts.push(part);
    }
    return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
  }

  return {
    async write(id, source) {
      if (!isFileId(id)) throw new Error(`not an id of a file: ${id}`);
      const version: Version = { _id: new ObjectId(), file: id, state: 'writing', number: 0, bytes: 0 };
      await call(() => versions.insertOne(version));
      const bytes = await upload(version, source);
      if (!(await publish(version, bytes))) {
        await discard(version);
        throw storeUnavailable(new Error('the file was removed while it was written'));
      }
      await removeOlder(id).catch(() => {}); // `remove` finds them
      return bytes;
    },

    async read(id, from, bytesMax) {
      for (let attempt = 1; ; attempt += 1) {
        const version = (await wholeOf(id))[0];
        if (version === undefined) return undefined;
        try {
          return await readRange(version, from, from + bytesMax);
        } catch (error) {
          // Another may have taken its place while it was read, and its chunks away.
          const now = (await wholeOf(id))[0];
          if (attempt === readAttemptsMax || now?._id.equals(version._id)) throw error;
        }
      }
    },

    async remove(id) {
      // First of all, so that one which is being written never becomes the file, and nobody reads what is half gone.
      await call(() => versions.updateMany({ file: id }, { $set: { state: 'going' } }));
      const going = await call(() => versions.find({ file: id }, lasting()).toArray());
      for (const version of going) await discard(version);
    },
  };
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
